/** What stands in for a failed trajectory (semantics 3). */
import { clipText, messageOf, ownText } from "@muster/base";
import type { FailureKind, Trajectory, TrajectoryError } from "@muster/protocol";

/** Longest name, message and stack that travel with a placeholder. */
const nameMax = 200;
const messageMax = 2_000;
const stackMax = 4_000;

/** The placeholder of what failed so. */
export const placeholderOf = (error: unknown, kind: FailureKind): Trajectory =>
  placeholderWith(describedFailure(error, kind));

/** Makes a placeholder: consistent lengths, nothing in the loss, never part of group statistics. A fresh object each time. */
export function placeholderWith(error: TrajectoryError): Trajectory {
  return {
    tokens: Int32Array.of(0, 0),
    promptLength: 1,
    logprobs: Float32Array.of(0),
    lossMask: Uint8Array.of(0),
    reward: 0,
    status: "aborted",
    segments: [],
    error,
  };
}

/**
 * The original error as it travels, which keeps nothing of it in memory. Getters of a thrown object may throw themselves: then that is said instead.
 */
export function describedFailure(error: unknown, kind: FailureKind): TrajectoryError {
  try {
    if (!(error instanceof Error)) return { kind, name: "NotAnError", message: clipText(messageOf(error), messageMax) };
    const { name, message, stack } = error;
    return {
      kind,
      name: clipText(String(name), nameMax),
      message: clipText(String(message), messageMax),
      ...(typeof stack === "string" ? { stack: framesOf(stack, String(message)) } : {}),
    };
  } catch {
    return { kind, name: "NotAnError", message: "what was thrown can not be described" };
  }
}

/** Frames of Node itself and of promises: which of them are there depends on what else the process does and did before. */
const internal = /^\s+at (.*\bnode:internal\/|async Promise\.)/;

/** A stack begins with the message: of a long one the beginning, so that there is room for where it was thrown. */
function framesOf(stack: string, message: string): string {
  const at = message.length > messageMax ? stack.indexOf(message) : -1;
  const short = at < 0 ? stack : stack.slice(0, at) + clipText(message, messageMax) + stack.slice(at + message.length);
  const lines = short.slice(0, 4 * stackMax).split("\n");
  return ownText(clipText(lines.filter((line) => !internal.test(line)).join("\n"), stackMax));
}
