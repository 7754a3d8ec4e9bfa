/** What the actor host is made from and what it offers. The loop itself is in actor-host.ts. */
import type { Clock, Logger, Metrics } from "@muster/base";
import type { Logic, Step, TimerEffect } from "@muster/machines";
import type { Lane, Weight } from "./mailbox.ts";
import type { PendingTimer } from "./timers.ts";

/** Anything told apart by `type`: events and effects. */
export interface Typed {
  readonly type: string;
}

/** What a handler may use besides its effect. */
export interface HostTools<Event> {
  /** Tells the machine an outcome; goes to the control lane unless said otherwise. @returns False once the host has ended. */
  readonly post: (event: Event, lane?: Lane) => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Aborted when the host stops or fails; long work must end on it. */
  readonly signal: AbortSignal;
}

/** Executes one effect. A promise is tracked, never awaited by the loop; throwing or rejecting is a broken invariant. */
export type EffectHandler<Effect, Event> = (effect: Effect, tools: HostTools<Event>) => void | Promise<void>;

/** One handler per effect type of a machine; the host executes timers itself. */
export type EffectHandlers<Effect extends Typed, Event> = {
  readonly [T in Exclude<Effect["type"], TimerEffect<Event>["type"]>]: EffectHandler<
    Extract<Effect, { readonly type: T }>,
    Event
  >;
};

/** What must last before the effects of a batch are executed. */
export interface PersistBatch<Snapshot, Event, Effect = unknown> {
  /** The events that did something, in order; stepping them again from the snapshot before gives the same snapshot. */
  readonly events: readonly Event[];
  /** What they led to, in order; executed once the batch lasts. */
  readonly effects: readonly Effect[];
  /** The snapshot after them. */
  readonly snapshot: Snapshot;
  /** False when the events led to effects only. */
  readonly changed: boolean;
}

/** How a host ended. */
export interface HostEnd<Event> {
  /** `done`: the machine reached its end; `stopped`: somebody asked; `failed`: an invariant or persistence broke. */
  readonly reason: "done" | "stopped" | "failed";
  /** The cause of `failed`. */
  readonly error?: unknown;
  /** The last events stepped, oldest first, at most 64. */
  readonly recentEvents: readonly Event[];
}

/** When events of the data lane may wait for more. What comes in the control lane and may pass goes first, and they are looked at again behind it. */
export interface Patience<Snapshot, Event> {
  /** True while nobody waits for any of these events, which are in order. */
  readonly mayWait: (snapshot: Snapshot, events: readonly Event[]) => boolean;
  /** False for an event of the control lane before which those that wait must be stepped, as they came before it. Default: each may pass. */
  readonly mayPass?: (snapshot: Snapshot, event: Event) => boolean;
  /** How long the first of them waits at most. */
  readonly forMs: number;
}

/** What an actor host is made from. */
export interface ActorHostOptions<Snapshot, Event extends Typed, Effect extends Typed> {
  readonly logic: Pick<Logic<never, Event, Snapshot, Effect>, "id" | "step">;
  /** From `logic.init`, or a restored snapshot with the timers that were pending as `timer.start` effects. */
  readonly initial: Step<Snapshot, Effect>;
  readonly handlers: EffectHandlers<Effect, Event>;
  /** Called before the effects of a batch when its events did something. A rejection ends the host with that error. */
  readonly persist?: (batch: PersistBatch<Snapshot, Event, Effect>) => Promise<void>;
  /**
   * Asked before each effect: `null` when it can be executed now, else the rest of the batch, and every later one, waits. So a machine that
   * asks for more than the way out takes is held back.
   */
  readonly room?: () => Promise<void> | null;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Bound of events from outside, ≥ 1. */
  readonly mailboxMax: number;
  /** Events stepped in one turn, ≥ 1. Default 64. */
  readonly batchMax?: number;
  /** What events weigh, and how much a batch may: for a `persist` that takes so many bytes. An event that weighs more is a batch alone. */
  readonly weight?: Weight<Event>;
  /** Which events may wait for later ones, so that one `persist` is for all of them. Default: none. */
  readonly patience?: Patience<Snapshot, Event>;
  /** How long a stopping host waits for its handlers. Default 5 s. */
  readonly stopMs?: number;
  /** Runs the next turn later; default `setImmediate`, so that I/O comes between turns. */
  readonly schedule?: (turn: () => void) => void;
  /** State shown in the log of state changes; default the `value` of an XState snapshot. */
  readonly stateOf?: (snapshot: Snapshot) => unknown;
  /** Called once, when the host has ended. */
  readonly onStopped?: (end: HostEnd<Event>) => void;
}

/** How an event from outside is taken. */
export interface PostOptions {
  readonly lane?: Lane;
  readonly settle?: () => void;
  readonly spare?: (error: unknown) => boolean;
}

/** A machine with its mailbox, timers and effects: everything between the wire and the decisions. */
export interface ActorHost<Snapshot, Event> {
  /**
   * Gives the machine an event from outside.
   *
   * @param options - `lane`, default `data`; `settle`, called once the event's effects are executed (acknowledge here); `spare`, called
   *   when the machine throws over the event: true leaves the event out, settles it and goes on, false (default) ends the host.
   * @returns False, and counted, when the mailbox is full or the host has ended; `settle` is then never called.
   */
  post(event: Event, options?: PostOptions): boolean;
  /** The present snapshot, persisted or not. */
  snapshot(): Snapshot;
  /** The timers that run, to be written down with the snapshot. */
  pendingTimers(): readonly PendingTimer<Event>[];
  /**
   * Ends the host: nothing more is stepped, unsettled events stay unsettled. Harmless when called twice. A handler may call it but
   * not wait for it.
   *
   * @returns Resolves when the handlers have ended, at the latest after `stopMs`.
   */
  stop(): Promise<HostEnd<Event>>;
  /** Resolves when nothing is left to step and no handler runs; timers may be pending. @throws The cause when the host failed. */
  idle(): Promise<void>;
}
