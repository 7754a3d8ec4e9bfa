/**
 * The end of a process that was told to end and does not: work that hangs, output that nobody reads, a call of the system that does not
 * return, a main loop that is blocked. `process.exit` waits for such calls; the signal itself, with nobody who handles it, does not.
 */
import { constants } from "node:os";
import { guardSignal } from "@muster/collectives";

/** How long a command may take to end once it is told to. */
const endMs = 4_500;

/** Ends the process by the signal when it is still there after four and a half seconds. It keeps no process alive. */
export function endAnyway(name: NodeJS.Signals): void {
  setTimeout(() => {
    process.stderr.write(
      `muster: did not end within ${endMs / 1000} s of ${name}; ended anyway (open: ${openOnes()})\n`,
    );
    process.removeAllListeners(name);
    process.kill(process.pid, name);
  }, endMs).unref();
}

/** What keeps the process alive, by kind. */
function openOnes(): string {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].map(([kind, count]) => `${count} ${kind}`).join(", ") || "nothing";
}

/** From the first handler of one of these signals on, it ends the process when the main loop, which would run that handler, does not turn within 5 s. */
export function endWhenStuck(names: readonly NodeJS.Signals[]): void {
  process.on("newListener", (name: string | symbol) => {
    if (names.some((one) => one === name)) guardSignal(constants.signals[name as NodeJS.Signals]);
  });
}
