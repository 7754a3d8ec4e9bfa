/**
 * Commands that go on until they are told to stop: the first Ctrl-C ends them cleanly, within five seconds, the second at once. So does lost output, and the end
 * of the terminal, if they have one.
 */
import { type ExitCode, exitCodes } from "@muster/runtime";
import { hasTerminal } from "@muster/runtime/process";
import { endAnyway } from "./last-resort.ts";
import { whenOutputIsLost } from "./output.ts";

const codes = { SIGINT: exitCodes.interrupted, SIGTERM: exitCodes.terminated, SIGHUP: exitCodes.terminated } as const;

/** Does the work with a signal that Ctrl-C and lost output abort. @returns The code of the work, or of what ended it. */
export async function untilInterrupted(work: (signal: AbortSignal) => Promise<ExitCode>): Promise<ExitCode> {
  const controller = new AbortController();
  let interruptedBy: ExitCode | null = null;
  const interrupt = (code: ExitCode): void => {
    interruptedBy ??= code;
    controller.abort();
  };
  const onTerminal = hasTerminal();
  const onSignal = (name: keyof typeof codes): void => {
    // It comes twice, and to those that have no terminal.
    if (name === "SIGHUP" && (!onTerminal || interruptedBy !== null)) return;
    if (interruptedBy !== null) process.exit(interruptedBy);
    endAnyway(name);
    interrupt(codes[name]);
  };
  // What is done before it first waits may block for ever; the signals are not handled yet, and end the process.
  const done = work(controller.signal);
  const names = Object.keys(codes) as (keyof typeof codes)[];
  for (const name of names) process.on(name, onSignal);
  const forget = whenOutputIsLost(() => interrupt(exitCodes.ok));
  try {
    // A reader that has left is no reason to call a failure a success.
    return await done.then((code) => interruptedBy || code);
  } catch (error) {
    // After an interruption the work ends with the abort, which is no fault.
    if (interruptedBy !== null) return interruptedBy;
    throw error;
  } finally {
    forget();
    for (const name of names) process.off(name, onSignal);
  }
}
