/** Signals in a process whose main loop is blocked: nothing of its own could answer them. */
import { constants } from "node:os";
import { hasCode } from "@muster/base";
import { native } from "./native.ts";

/**
 * Has each of these signals end the process, as it would without a handler, when it has a handler and the main loop does not turn within five seconds of it.
 * A loop that turns has all the time that its handlers take. Where no addon is built nothing changes. Called once, on the main thread.
 */
export function endWhenStuck(names: readonly NodeJS.Signals[]): void {
  process.on("newListener", (name: string | symbol) => {
    if (names.some((one) => one === name)) guard(constants.signals[name as NodeJS.Signals]);
  });
}

/** Commands that need the addon say themselves that it is missing. */
function guard(signal: number): void {
  try {
    native().guardSignal(signal);
  } catch (error) {
    if (!hasCode(error, "MUSTER_ERR_NATIVE_MISSING") && !hasCode(error, "MUSTER_ERR_NATIVE_STALE")) throw error;
  }
}
