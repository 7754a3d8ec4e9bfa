/** The promises a host has started and not awaited, and the wait for all of them. */
import type { Clock } from "@muster/base";

/** Work under way. */
export interface PendingWork {
  /** Follows a promise to its end. It must not reject. */
  track(work: Promise<void>): void;
  size(): number;
  /** Resolves true when nothing is under way, false when that takes longer than `timeoutMs`. */
  settled(clock: Clock, timeoutMs: number): Promise<boolean>;
}

/** Creates the set; `onChange` is called when a piece of work ends. */
export function createPendingWork(onChange: () => void): PendingWork {
  const running = new Set<Promise<void>>();
  let waiting: (() => void)[] = [];

  const end = (work: Promise<void>): void => {
    running.delete(work);
    if (running.size === 0) {
      for (const resolve of waiting) resolve();
      waiting = [];
    }
    onChange();
  };

  return {
    track(work) {
      running.add(work);
      void work.finally(() => end(work));
    },
    size: () => running.size,
    settled(clock, timeoutMs) {
      if (running.size === 0) return Promise.resolve(true);
      return new Promise((resolve) => {
        const cancel = clock.after(timeoutMs, () => resolve(false));
        waiting.push(() => {
          cancel();
          resolve(true);
        });
      });
    },
  };
}
