/** A clock that stands until the test moves it. */
import type { Clock } from "@muster/base";

/** A clock by hand. */
export interface TestClock extends Clock {
  /** Moves on, and calls what is due in order. Lets pending promises run between two calls. */
  advance(ms: number): Promise<void>;
}

/** A clock that begins at 1,000 ms. */
export function testClock(): TestClock {
  let now = 1_000;
  const timers = new Set<{ at: number; run: () => void }>();
  return {
    now: () => now,
    after(delayMs, run) {
      const timer = { at: now + delayMs, run };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    async advance(ms) {
      const end = now + ms;
      for (;;) {
        const [next] = [...timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        timers.delete(next);
        now = next.at;
        next.run();
        await new Promise((resolve) => setImmediate(resolve));
      }
      now = end;
    },
  };
}
