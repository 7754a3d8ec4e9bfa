/** The broker's word on ended connections, where it is to be had: a death is then noticed in milliseconds. */
import type { Environment } from "../environment.ts";
import type { Closer } from "./holdings.ts";
import type { MemberWatch } from "./watch-members.ts";

const disconnectMs = 30;

/** A wait that is shorter is over. */
// no mutant: it is the grain of timers, and two milliseconds would be as right
const leastMs = 1;

/** Feeds the watch. `look` is called once for a burst of words, a moment after the last one. @returns Ends it; `null` where deaths are noticed by silence only. */
export async function hearDisconnects(
  { clock, logger, watchDisconnects }: Pick<Environment, "clock" | "logger" | "watchDisconnects">,
  watch: MemberWatch,
  look: () => void,
): Promise<Closer | null> {
  if (!watchDisconnects) return null;
  let heardMs = 0;
  let isDue = false;
  // A look is at all members: for a host that takes hundreds along it is one, once there is a moment of silence, or the next tick's.
  const lookAfter = (delayMs: number): void => {
    isDue = true;
    clock.after(delayMs, () => {
      isDue = false;
      const leftMs = heardMs + disconnectMs - clock.now();
      if (leftMs > leastMs) lookAfter(leftMs);
      else look();
    });
  };
  try {
    const watching = await watchDisconnects(({ name }) => {
      watch.disconnected(name);
      heardMs = clock.now();
      // A member that leaves says so a moment later.
      if (!isDue) lookAfter(disconnectMs);
    });
    watch.hearsDisconnects();
    return () => watching.close();
  } catch (error) {
    logger.warn({ error }, "ended connections are not announced: deaths are noticed by silence only");
    return null;
  }
}
