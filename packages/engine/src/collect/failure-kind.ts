/** Which kind of failure an error of a trajectory is: what decides whether it is worth another try. */
import { MusterError } from "@muster/base";
import type { FailureKind } from "@muster/protocol";

const transportCodes = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "EPIPE",
  "ETIMEDOUT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
]);

/** An error and its causes, at most this many. */
const causesMax = 5;

/** Classifies an error by its code, its name and those of its causes. What nothing is known of is the user's own. Pure. */
export function failureKindOf(error: unknown): FailureKind {
  for (const part of chainOf(error)) {
    const { name, code, message } = part;
    if (code === "MUSTER_ERR_TRAJECTORY_TIMEOUT" || code === "MUSTER_ERR_DEADLINE_EXPIRED" || name === "TimeoutError")
      return "timeout";
    if (code === "MUSTER_ERR_ENGINE_OUT_OF_MEMORY" || /array buffer allocation failed/i.test(message)) return "oom";
    if (transportCodes.has(code) || code.startsWith("UND_ERR_") || part.isRetryable) return "transport";
  }
  return "user_error";
}

interface Part {
  readonly name: string;
  readonly code: string;
  readonly message: string;
  readonly isRetryable: boolean;
}

function chainOf(error: unknown): readonly Part[] {
  const parts: Part[] = [];
  let at = error;
  while (at instanceof Error && parts.length < causesMax) {
    const code = "code" in at && typeof at.code === "string" ? at.code : "";
    parts.push({ name: at.name, code, message: at.message, isRetryable: at instanceof MusterError && at.retryable });
    at = at.cause;
  }
  return parts;
}
