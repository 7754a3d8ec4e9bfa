/** Bounds what one line of a log may hold: code of others may throw megabytes, and a chain of causes may have no end. */
import { clipText } from "@muster/base";

const textMax = 4_000;
const stackMax = 8_000;
const causesMax = 4;
const fieldsMax = 16;

/** An error as a line shows it: class, message, stack, plain fields, and its causes to a depth of four. Anything else as a short text. */
export function shortOf(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return typeof error === "string" ? clipText(error, textMax) : error;
  const { message, stack, cause } = error;
  const plain = Object.entries(error).filter(([, value]) => ["string", "number", "boolean"].includes(typeof value));
  return {
    ...shortFields(Object.fromEntries(plain.slice(0, fieldsMax))),
    type: clipText(String(error.constructor.name), 200),
    message: clipText(String(message), textMax),
    stack: shortStack(String(stack ?? ""), String(message)),
    ...(cause === undefined || depth >= causesMax ? {} : { cause: shortOf(cause, depth + 1) }),
    ...(error instanceof AggregateError && depth < causesMax
      ? { errors: error.errors.slice(0, causesMax).map((each) => shortOf(each, depth + 1)) }
      : {}),
  };
}

/** Fields with their texts cut; the same object when none is long. */
export function shortFields(fields: Record<string, unknown>): Record<string, unknown> {
  const long = Object.entries(fields).filter(([, value]) => typeof value === "string" && value.length > textMax);
  if (long.length === 0) return fields;
  return { ...fields, ...Object.fromEntries(long.map(([key, value]) => [key, clipText(String(value), textMax)])) };
}

/** A stack begins with the message, whose end would leave no room for the frames. */
function shortStack(stack: string, message: string): string {
  const at = message.length > textMax ? stack.indexOf(message) : -1;
  if (at < 0) return clipText(stack, stackMax);
  return clipText(stack.slice(0, at) + clipText(message, textMax) + stack.slice(at + message.length), stackMax);
}
