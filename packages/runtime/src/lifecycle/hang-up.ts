/**
 * The end of a terminal. SIGHUP says it, often twice: the shell tells all that it has started, and the kernel those in front once the shell is
 * gone. Who has nothing on a terminal is told as well, and goes on: `nohup` asks for that, and Node forgets it (it takes back what a process was
 * started to ignore).
 */
import { closeSync } from "node:fs";
import { isatty } from "node:tty";

const standard = [0, 1, 2];

/** True when a standard stream of this process is a terminal that is still there. */
export function hasTerminal(): boolean {
  return standard.some((fd) => isatty(fd));
}

/**
 * Lets this process end with its own exit code where its terminal is gone by then: Node sets terminals back at its end, and aborts when that fails. It does not
 * look at descriptors that are closed.
 */
export function endWithoutTerminal(): void {
  const terminals = standard.filter((fd) => isatty(fd));
  if (terminals.length === 0) return;
  process.once("exit", () => {
    for (const fd of terminals) if (!isatty(fd)) closeSync(fd);
  });
}
