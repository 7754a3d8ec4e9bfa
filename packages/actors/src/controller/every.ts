import type { Clock } from "@muster/base";

/** Runs something each `ms`, first after `ms`. @returns Ends it. */
export function every(clock: Clock, ms: number, run: () => void): () => void {
  let cancel = clock.after(ms, function again() {
    run();
    cancel = clock.after(ms, again);
  });
  return () => cancel();
}
