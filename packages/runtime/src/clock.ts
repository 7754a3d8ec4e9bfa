/** The two clocks: the machine's monotonic one, and one that tests move by hand. */
import { performance } from "node:perf_hooks";
import { type Clock, invariant } from "@muster/base";

/** Longest delay that setTimeout keeps; beyond it fires at once. */
const timeoutMsMax = 2 ** 31 - 1;

/** The monotonic clock of this process. Timers keep the process alive until they fire or are cancelled. */
export function systemClock(): Clock {
  return { now: () => performance.now(), after: (delayMs, run) => startTimeout(delayMs, run) };
}

function startTimeout(delayMs: number, run: () => void): () => void {
  let timer: NodeJS.Timeout;
  const arm = (leftMs: number): void => {
    const partMs = Math.min(Math.max(leftMs, 0), timeoutMsMax);
    timer = setTimeout(() => (leftMs > partMs ? arm(leftMs - partMs) : run()), partMs);
  };
  arm(delayMs);
  return () => clearTimeout(timer);
}

/** A clock that stands still until told otherwise. */
export interface ManualClock extends Clock {
  /** Moves time forward, firing what is due in order of time, then of start. */
  advance(ms: number): void;
  /** Milliseconds until the next timer, or `null` when none runs. */
  untilNextMs(): number | null;
}

interface Alarm {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
}

/** A clock for tests; starts at 0. */
export function manualClock(): ManualClock {
  let nowMs = 0;
  let started = 0;
  const alarms = new Set<Alarm>();

  const next = (): Alarm | null => {
    let first: Alarm | null = null;
    for (const alarm of alarms) {
      const earlier =
        first === null || alarm.atMs < first.atMs || (alarm.atMs === first.atMs && alarm.order < first.order);
      if (earlier) first = alarm;
    }
    return first;
  };

  return {
    now: () => nowMs,
    after(delayMs, run) {
      const alarm: Alarm = { atMs: nowMs + Math.max(delayMs, 0), order: started++, run };
      alarms.add(alarm);
      return () => void alarms.delete(alarm);
    },
    advance(ms) {
      invariant(ms >= 0, `time was asked to move by ${ms} ms`);
      const untilMs = nowMs + ms;
      for (let alarm = next(); alarm && alarm.atMs <= untilMs; alarm = next()) {
        alarms.delete(alarm);
        nowMs = alarm.atMs;
        alarm.run();
      }
      nowMs = untilMs;
    },
    untilNextMs() {
      const alarm = next();
      return alarm ? alarm.atMs - nowMs : null;
    },
  };
}
