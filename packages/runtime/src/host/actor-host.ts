/**
 * The loop of every actor: take a batch, step each event, persist once, execute the effects in order, settle the batch.
 * A step never awaits, an effect never touches the state; outcomes come back through the mailbox (architecture 4).
 */
import { hasCode, messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { createHostMeters, type HostMeters } from "./host-meters.ts";
import { createMailbox, type Lane, type Mailbox, type MailboxEntry } from "./mailbox.ts";
import { createPendingWork, type PendingWork } from "./pending-work.ts";
import { isFinal, stateText, stateValueOf } from "./state-text.ts";
import { createTimers, isTimerEffect, type PendingTimer, type Timers } from "./timers.ts";
import type { ActorHost, ActorHostOptions, EffectHandler, HostEnd, HostTools, PostOptions, Typed } from "./types.ts";
import { Wait } from "./wait.ts";

const recentEventsMax = 64;

/** Puts a pure machine to work. Its first effects are executed in the first turn, before any event. */
export function createActorHost<Snapshot, Event extends Typed, Effect extends Typed>(
  options: ActorHostOptions<Snapshot, Event, Effect>,
): ActorHost<Snapshot, Event> {
  return new Host(options);
}

class Host<Snapshot, Event extends Typed, Effect extends Typed> implements ActorHost<Snapshot, Event> {
  readonly #options: ActorHostOptions<Snapshot, Event, Effect>;
  readonly #mailbox: Mailbox<Event>;
  readonly #timers: Timers<Event>;
  readonly #work: PendingWork;
  readonly #wait: Wait<Snapshot, Event>;
  readonly #meters: HostMeters;
  readonly #tools: HostTools<Event>;
  readonly #abort = new AbortController();
  readonly #recentEvents: Event[] = [];
  readonly #ended: Promise<HostEnd<Event>>;
  #announceEnd: (end: HostEnd<Event>) => void = () => {};
  #snapshot: Snapshot;
  #firstEffects: readonly Effect[];
  #awake = false;
  #end: HostEnd<Event> | null = null;
  #idlers: (() => void)[] = [];

  constructor(options: ActorHostOptions<Snapshot, Event, Effect>) {
    this.#options = options;
    this.#snapshot = options.initial.snapshot;
    this.#firstEffects = options.initial.effects;
    this.#mailbox = createMailbox(options.mailboxMax);
    this.#timers = createTimers(options.clock, (event) => this.#postOwn(event, "control"));
    this.#work = createPendingWork(() => this.#wakeIdlers());
    this.#wait = new Wait(options.patience, options.clock, () => this.#wake());
    this.#meters = createHostMeters(options.metrics);
    this.#tools = {
      post: (event, lane = "control") => this.#postOwn(event, lane),
      clock: options.clock,
      logger: options.logger,
      signal: this.#abort.signal,
    };
    this.#ended = new Promise((resolve) => {
      this.#announceEnd = resolve;
    });
    this.#wake();
  }

  post(event: Event, { lane = "data", settle, spare }: PostOptions = {}): boolean {
    if (this.#end) return this.#meters.refused("stopped");
    if (!this.#mailbox.offer({ event, settle, spare }, lane)) return this.#meters.refused("mailbox_full");
    this.#wake();
    return true;
  }

  snapshot(): Snapshot {
    return this.#snapshot;
  }

  pendingTimers(): readonly PendingTimer<Event>[] {
    return this.#timers.pending();
  }

  stop(): Promise<HostEnd<Event>> {
    this.#finish("stopped");
    return this.#ended;
  }

  async idle(): Promise<void> {
    while (!this.#isIdle()) await new Promise<void>((resolve) => this.#idlers.push(resolve));
    if (this.#end?.reason === "failed") throw this.#end.error;
  }

  // The loop

  #wake(): void {
    if (this.#awake || this.#end) return;
    this.#awake = true;
    (this.#options.schedule ?? setImmediate)(() => this.#work.track(this.#run()));
  }

  async #run(): Promise<void> {
    try {
      await this.#turn();
    } catch (error) {
      this.#fail(error);
    }
    this.#awake = false;
    // Events that wait are looked at again after every step, which may have made somebody wait for them, and with what came meanwhile.
    const isDue = this.#mailbox.depth("control") > 0 || this.#wait.isNews(this.#mailbox, this.#snapshot);
    if (this.#mailbox.size() > 0 && isDue) this.#wake();
  }

  async #turn(): Promise<void> {
    if (this.#end) return;
    const first = this.#firstEffects;
    this.#firstEffects = [];
    for (const effect of first) this.#execute(effect);
    this.#meters.depth(this.#mailbox);
    const batch = this.#take();
    const startedMs = this.#options.clock.now();
    const effects = await this.#stepAndPersist(batch);
    if (this.#end) return;
    for (const effect of effects) {
      for (let room = this.#blocked(); room; room = this.#blocked()) await this.#until(room);
      this.#execute(effect);
    }
    if (this.#end) return;
    for (const entry of batch) entry.settle?.();
    if (batch.length > 0) this.#meters.batch(this.#options.clock.now() - startedMs);
    if (isFinal(this.#snapshot)) this.#finish("done");
  }

  /** The next batch; what may wait for more is left where it is. */
  #take(): MailboxEntry<Event>[] {
    const { batchMax = 64, weight } = this.#options;
    const lane = this.#wait.next(this.#mailbox, this.#snapshot);
    return lane ? this.#mailbox.takeOf(lane, batchMax, weight) : this.#mailbox.take(batchMax, weight);
  }

  /** Until when there is no room on the way out; whoever comes first takes what there is then. */
  #blocked(): Promise<void> | null {
    return this.#end ? null : (this.#options.room?.() ?? null);
  }

  /** Waits for `room`, or for the end of this host. */
  async #until(room: Promise<void>): Promise<void> {
    const { signal } = this.#abort;
    let stop = (): void => {};
    const stopped = new Promise<void>((resolve) => {
      stop = resolve;
    });
    signal.addEventListener("abort", stop, { once: true });
    if (!signal.aborted) await Promise.race([room, stopped]);
    signal.removeEventListener("abort", stop);
  }

  async #stepAndPersist(batch: readonly MailboxEntry<Event>[]): Promise<readonly Effect[]> {
    const before = this.#snapshot;
    const events: Event[] = [];
    const effects: Effect[] = [];
    for (const entry of batch) {
      const { event } = entry;
      const step = this.#step(entry);
      if (!step) continue;
      if (step.snapshot !== this.#snapshot || step.effects.length > 0) events.push(event);
      this.#logChange(event, step.snapshot);
      this.#snapshot = step.snapshot;
      effects.push(...step.effects);
    }
    if (events.length > 0 && this.#options.persist) {
      const startedMs = this.#options.clock.now();
      await this.#options.persist({ events, effects, snapshot: this.#snapshot, changed: this.#snapshot !== before });
      this.#meters.persisted(this.#options.clock.now() - startedMs);
    }
    return effects;
  }

  /** @returns `null` for an event that is left out: a machine that throws has changed nothing. */
  #step({ event, spare }: MailboxEntry<Event>) {
    this.#recentEvents.push(event);
    if (this.#recentEvents.length > recentEventsMax) this.#recentEvents.shift();
    this.#meters.event(event.type);
    try {
      return this.#options.logic.step(this.#snapshot, event);
    } catch (error) {
      const machine = this.#options.logic.id;
      if (spare?.(error)) return null;
      throw errors.StepFailed({ machine, event: event.type, reason: messageOf(error) }, error);
    }
  }

  #execute(effect: Effect): void {
    if (this.#end) return;
    this.#meters.effect(effect.type);
    if (isTimerEffect<Event>(effect)) this.#timers.execute(effect);
    else this.#handle(effect);
  }

  #handle(effect: Effect): void {
    // Each handler takes only its own effect; the table's type guarantees the pairing, the lookup by name cannot see it.
    const handlers = this.#options.handlers as Readonly<Record<string, EffectHandler<never, Event> | undefined>>;
    const handler = handlers[effect.type];
    if (!handler) throw errors.EffectUnknown({ effect: effect.type });
    const failure = (error: unknown) => errors.HandlerFailed({ effect: effect.type, reason: messageOf(error) }, error);
    try {
      const outcome = handler(effect as never, this.#tools);
      if (outcome) this.#work.track(outcome.catch((error: unknown) => this.#fail(failure(error))));
    } catch (error) {
      throw failure(error);
    }
  }

  #postOwn(event: Event, lane: Lane): boolean {
    if (this.#end) return false;
    if (!this.#mailbox.offerOwn({ event, settle: undefined }, lane)) {
      this.#fail(errors.MailboxFull({ size: this.#mailbox.size(), limit: this.#options.mailboxMax }));
      return false;
    }
    this.#wake();
    return true;
  }

  // The end

  #fail(error: unknown): void {
    if (this.#end) return;
    const recent = this.#recentEvents.map((event) => event.type);
    const fields = { error, machine: this.#options.logic.id, recentEvents: recent };
    if (hasCode(error, "MUSTER_ERR_FENCED")) this.#options.logger.warn(fields, "fenced: another controller lives");
    else this.#options.logger.error(fields, "actor failed");
    this.#finish("failed", error);
  }

  #finish(reason: HostEnd<Event>["reason"], error?: unknown): void {
    if (this.#end) return;
    const end = { reason, recentEvents: this.#recentEvents, ...(error === undefined ? {} : { error }) };
    this.#end = end;
    this.#timers.cancelAll();
    this.#wait.end();
    this.#mailbox.clear();
    if (reason !== "done") this.#abort.abort(error);
    void this.#conclude(end);
  }

  async #conclude(end: HostEnd<Event>): Promise<void> {
    const waitMs = this.#options.stopMs ?? 5_000;
    const settled = end.reason === "failed" || (await this.#work.settled(this.#options.clock, waitMs));
    if (!settled) this.#options.logger.warn({ handlers: this.#work.size(), waitMs }, "handlers did not end in time");
    this.#abort.abort();
    this.#announceEnd(end);
    this.#options.onStopped?.(end);
    this.#wakeIdlers();
  }

  #isIdle(): boolean {
    return this.#end !== null || (!this.#awake && this.#mailbox.size() === 0 && this.#work.size() === 0);
  }

  #wakeIdlers(): void {
    if (!this.#isIdle()) return;
    for (const resolve of this.#idlers) resolve();
    this.#idlers = [];
  }

  #logChange(event: Event, next: Snapshot): void {
    const stateOf = this.#options.stateOf ?? stateValueOf;
    const [from, to] = [stateOf(this.#snapshot), stateOf(next)];
    if (from === to) return;
    const fields = { from: stateText(from), to: stateText(to), kind: event.type };
    if (fields.from !== fields.to) this.#options.logger.info(fields, "state changed");
  }
}
