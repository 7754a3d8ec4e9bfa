/** Signals in a process whose main loop is blocked: nothing of its own could answer them. */
import { hasCode } from "@muster/base";
import { native } from "./native.ts";

/**
 * Has a signal that has a handler end the process, as it would without one, when the main loop does not turn within five seconds of it. A loop that turns
 * has all the time that its handlers take. Where no addon is built nothing changes. On the main thread alone.
 */
export function guardSignal(signal: number): void {
  try {
    native().guardSignal(signal);
  } catch (error) {
    // Commands that need the addon say themselves that it is missing.
    if (!hasCode(error, "MUSTER_ERR_NATIVE_MISSING") && !hasCode(error, "MUSTER_ERR_NATIVE_STALE")) throw error;
  }
}
