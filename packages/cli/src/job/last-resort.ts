/**
 * The end of a process that was told to end and does not: work that hangs, output that nobody reads, a call of the system that does not
 * return. `process.exit` waits for such calls; the signal itself, with nobody who handles it, does not.
 */

/** How long a command may take to end once it is told to. */
const endMs = 4_500;

/** Ends the process by the signal when it is still there after four and a half seconds. It keeps no process alive. */
export function endAnyway(name: NodeJS.Signals): void {
  setTimeout(() => {
    process.stderr.write(`muster: did not end within ${endMs / 1000} s of ${name}; ended anyway\n`);
    process.removeAllListeners(name);
    process.kill(process.pid, name);
  }, endMs).unref();
}
