/** The broker's word on ended connections, where it is to be had: a death is then noticed in milliseconds. */
import type { Environment } from "../environment.ts";
import type { Closer } from "./holdings.ts";
import type { MemberWatch } from "./watch-members.ts";

const disconnectMs = 30;

/** Feeds the watch. `look` is called a moment after each word. @returns Ends it; `null` where deaths are noticed by silence only. */
export async function hearDisconnects(
  { clock, logger, watchDisconnects }: Pick<Environment, "clock" | "logger" | "watchDisconnects">,
  watch: MemberWatch,
  look: () => void,
): Promise<Closer | null> {
  if (!watchDisconnects) return null;
  try {
    const watching = await watchDisconnects(({ name }) => {
      watch.disconnected(name);
      // A member that leaves says so a moment later.
      clock.after(disconnectMs, look);
    });
    watch.hearsDisconnects();
    return () => watching.close();
  } catch (error) {
    logger.warn({ error }, "ended connections are not announced: deaths are noticed by silence only");
    return null;
  }
}
