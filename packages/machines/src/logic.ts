/** The contract between a protocol core and its host. */

/** Result of one step: the next snapshot and the effects the host must execute, in order. */
export interface Step<Snapshot, Effect> {
  readonly snapshot: Snapshot;
  readonly effects: readonly Effect[];
}

/** A protocol core: pure and synchronous; no clock, no randomness, no I/O. Same snapshot and event, same step. */
export interface Logic<Input, Event, Snapshot, Effect> {
  readonly id: string;
  init(input: Input): Step<Snapshot, Effect>;
  step(snapshot: Snapshot, event: Event): Step<Snapshot, Effect>;
}

/** Ask for `event` to come back after a delay. Starting a timer that runs replaces it. */
export interface StartTimer<Event> {
  readonly type: "timer.start";
  readonly id: string;
  readonly delayMs: number;
  readonly event: Event;
}

/** Forget a timer; harmless when it is not running. */
export interface CancelTimer {
  readonly type: "timer.cancel";
  readonly id: string;
}

/** What every machine asks of its host besides its own effects. */
export type TimerEffect<Event> = StartTimer<Event> | CancelTimer;
