import type { Clock } from "./env.ts";

/** Runs something each `ms`, first after `ms`. @returns Ends it, also from within. */
export function every(clock: Clock, ms: number, run: () => void): () => void {
  let cancel = clock.after(ms, function again() {
    cancel = clock.after(ms, again);
    run();
  });
  return () => cancel();
}
