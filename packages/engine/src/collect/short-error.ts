/** Errors of a user's code that are too large to be kept: those of a whole lease may be thrown at once, each with its text and once more in its stack. */
import { MusterError } from "@muster/base";
import { describedFailure } from "./placeholder.ts";

/** Most characters of an error that is handed on as it is. */
const wholeMax = 20_000;

/** Most causes that are handed on. */
const causesMax = 5;

/**
 * Calls a user's function. What it throws at once is short before anything else is called.
 *
 * @throws what it throws, or, for a large error, a short one with its name, code, causes, the beginning of its message, and where it was thrown.
 */
export async function withShortErrors<T>(run: () => T | Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw shortError(error);
  }
}

function shortError(error: unknown, causes = 0): unknown {
  if (!(error instanceof Error) || error instanceof MusterError) return error;
  try {
    const { cause } = error;
    const shortCause = causes < causesMax ? shortError(cause, causes + 1) : undefined;
    if (`${error.message}`.length + `${error.stack}`.length <= wholeMax && shortCause === cause) return error;
    const { name, message, stack } = describedFailure(error, "user_error");
    const code = "code" in error && typeof error.code === "string" ? { code: error.code.slice(0, 200) } : {};
    return Object.assign(new Error(message), {
      name,
      stack,
      ...code,
      ...(cause === undefined ? {} : { cause: shortCause }),
    });
  } catch {
    return error; // its getters throw: whoever describes it says so
  }
}
