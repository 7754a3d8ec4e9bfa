/** The exit code of a command that failed. */
import { hasCode, MusterError } from "@muster/base";
import { type ExitCode, exitCodes } from "@muster/runtime/process";

/** What a fault means for the exit code: some pass by themselves, those of the input and the host are the user's to mend, the rest is ours. */
export function exitCodeOf(error: unknown): ExitCode {
  if (hasCode(error, "MUSTER_ERR_INVARIANT_BROKEN") || !(error instanceof MusterError))
    return exitCodes.brokenInvariant;
  return error.retryable || hasCode(error, "MUSTER_ERR_FENCED") ? exitCodes.temporary : exitCodes.badInput;
}
