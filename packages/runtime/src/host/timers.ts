/** Timers as data: a machine names them, this table runs them, and what is left of them can be written down and started again. */
import type { Clock } from "@muster/base";
import type { StartTimer, TimerEffect } from "@muster/machines";

/** A timer that has not fired. */
export interface PendingTimer<Event> {
  readonly id: string;
  /** When it fires, on the host's clock; means nothing to another process. */
  readonly atMs: number;
  /** What is left of it: what another process starts it with. */
  readonly remainingMs: number;
  readonly event: Event;
}

/** The running timers of one host. */
export interface Timers<Event> {
  execute(effect: TimerEffect<Event>): void;
  pending(): PendingTimer<Event>[];
  cancelAll(): void;
}

interface Running<Event> {
  readonly atMs: number;
  readonly event: Event;
  readonly cancel: () => void;
}

/** Creates an empty table; `fire` gets the event of each timer that runs out. */
export function createTimers<Event>(clock: Clock, fire: (event: Event) => void): Timers<Event> {
  const running = new Map<string, Running<Event>>();

  const stop = (id: string): void => {
    running.get(id)?.cancel();
    running.delete(id);
  };

  const start = ({ id, delayMs, event }: StartTimer<Event>): void => {
    stop(id);
    const cancel = clock.after(delayMs, () => {
      running.delete(id);
      fire(event);
    });
    running.set(id, { atMs: clock.now() + delayMs, event, cancel });
  };

  return {
    execute: (effect) => (effect.type === "timer.start" ? start(effect) : stop(effect.id)),
    pending() {
      const nowMs = clock.now();
      return [...running].map(([id, { atMs, event }]) => ({ id, atMs, remainingMs: Math.max(0, atMs - nowMs), event }));
    },
    cancelAll() {
      for (const id of [...running.keys()]) stop(id);
    },
  };
}

/** True for the two effects that every host executes itself. */
export function isTimerEffect<Event>(effect: { readonly type: string }): effect is TimerEffect<Event> {
  return effect.type === "timer.start" || effect.type === "timer.cancel";
}
