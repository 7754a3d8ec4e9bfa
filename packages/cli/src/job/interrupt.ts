/** Commands that go on until they are told to stop: the first Ctrl-C ends them cleanly, the second at once. */
import { type ExitCode, exitCodes } from "@muster/runtime";

const codes = { SIGINT: exitCodes.interrupted, SIGTERM: exitCodes.terminated, SIGHUP: exitCodes.terminated } as const;

/** Does the work with a signal that Ctrl-C aborts. @returns The code of the work, or of the signal that ended it. */
export async function untilInterrupted(work: (signal: AbortSignal) => Promise<ExitCode>): Promise<ExitCode> {
  const controller = new AbortController();
  let interruptedBy: ExitCode | null = null;
  const onSignal = (name: keyof typeof codes): void => {
    if (interruptedBy !== null) process.exit(interruptedBy);
    interruptedBy = codes[name];
    controller.abort();
  };
  const names = Object.keys(codes) as (keyof typeof codes)[];
  for (const name of names) process.on(name, onSignal);
  try {
    return await work(controller.signal).then((code) => interruptedBy ?? code);
  } catch (error) {
    // After an interruption the work ends with the abort, which is no fault.
    if (interruptedBy !== null) return interruptedBy;
    throw error;
  } finally {
    for (const name of names) process.off(name, onSignal);
  }
}
