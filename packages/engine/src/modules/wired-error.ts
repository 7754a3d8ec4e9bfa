/**
 * Errors on their way between a sampler and the process of a module: name, message, code, stack and causes. An error of the engine that a module
 * hands on comes back as itself, however the module wrapped it.
 */
import { clipText, messageOf } from "@muster/base";

const causesMax = 5;
const nameMax = 200;
const messageMax = 10_000;
const stackMax = 20_000;

/** An error as it travels. */
export type WiredError =
  | { readonly thrown: string }
  | {
      readonly name: string;
      readonly message: string;
      readonly stack?: string | undefined;
      readonly code?: string | undefined;
      /** The turn whose error it is. */
      readonly turn?: number | undefined;
      readonly cause?: WiredError | undefined;
    };

/** Makes an error ready to travel. What is thrown may be anything, and its getters may throw. `turnOf` knows the errors of turns. */
export function wiredError(
  error: unknown,
  turnOf: (error: object) => number | undefined = () => undefined,
  causes = 0,
): WiredError {
  try {
    if (!(error instanceof Error)) return { thrown: messageOf(error) };
    const { cause, stack } = error;
    return {
      name: clipText(String(error.name), nameMax),
      message: clipText(String(error.message), messageMax),
      ...(typeof stack === "string" ? { stack: clipText(stack, stackMax) } : {}),
      ...("code" in error && typeof error.code === "string" ? { code: clipText(error.code, nameMax) } : {}),
      ...turnIn(turnOf(error)),
      ...(cause === undefined || causes >= causesMax ? {} : { cause: wiredError(cause, turnOf, causes + 1) }),
    };
  } catch {
    return { thrown: "what was thrown can not be described" };
  }
}

/** The error that travelled. `errorOf` has the errors of turns. */
export function errorOf(wired: WiredError, errorOfTurn: (turn: number) => unknown = () => undefined): unknown {
  if ("thrown" in wired) return wired.thrown;
  const { name, message, stack, code, turn, cause } = wired;
  const own = turn === undefined ? undefined : errorOfTurn(turn);
  if (own !== undefined) return own;
  const error = new Error(message, cause === undefined ? undefined : { cause: errorOf(cause, errorOfTurn) });
  const plain = { value: name, configurable: true, writable: true };
  Object.defineProperties(error, { name: plain, stack: { ...plain, value: stack ?? `${name}: ${message}` } });
  return code === undefined ? error : Object.assign(error, { code });
}

const turnIn = (turn: number | undefined): { readonly turn?: number } => (turn === undefined ? {} : { turn });
