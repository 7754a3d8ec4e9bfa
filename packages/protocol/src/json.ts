/**
 * JSON as every program can read and write it. What a message has and JSON has not are bytes: they are `{"$bytes": "<base64>"}`. A look at the text
 * before anything is made of it refuses what costs far more to decode than to send, by the same bounds as packed bytes.
 */
import { messageOf } from "@muster/base";
import { errors } from "./errors.ts";
import { depthMax, keysMax, type PackedBounds } from "./scan.ts";

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const arrayBegin = 0x5b;
const arrayEnd = 0x5d;
const objectBegin = 0x7b;
const objectEnd = 0x7d;

/** An object, or white space before one: no packed message begins so. */
const firstBytes: ReadonlySet<number | undefined> = new Set([objectBegin, 0x20, 0x09, 0x0a, 0x0d]);

/** True for bytes that are JSON, when they are a message at all. Pure. */
export function isJson(data: Uint8Array): boolean {
  return firstBytes.has(data[0]);
}

/** What is too much in a JSON text, or `null`. What is no JSON may pass: reading it says so. Pure. */
export function flawOfJson(data: Uint8Array, { elementsMax, arrayMax }: PackedBounds): string | null {
  const counts = new Float64Array(depthMax + 1);
  const isObject = new Uint8Array(depthMax + 1);
  let depth = 0;
  let elements = 0;
  for (let at = 0; at < data.length; at++) {
    const byte = data[at];
    if (byte === quote) at = endOfText(data, at);
    else if (byte === arrayEnd || byte === objectEnd) depth = Math.max(0, depth - 1);
    else if (byte === arrayBegin || byte === objectBegin) {
      depth += 1;
      if (depth > depthMax) return `nested deeper than ${depthMax}`;
      counts[depth] = 1;
      isObject[depth] = byte === objectBegin ? 1 : 0;
      elements += 1 + (isObject[depth] as number);
    } else if (byte === comma) {
      const count = (counts[depth] as number) + 1;
      counts[depth] = count;
      const isKeys = isObject[depth] === 1;
      if (isKeys && count > keysMax) return `an object of ${count} keys or more; at most ${keysMax}`;
      if (!isKeys && count > arrayMax) return `an array of ${count} elements or more; at most ${arrayMax}`;
      elements += 1 + (isObject[depth] as number);
    }
    if (elements > elementsMax) return `more than ${elementsMax} elements`;
  }
  return null;
}

/** Where a text ends that begins at `at`. */
function endOfText(data: Uint8Array, at: number): number {
  let end = at + 1;
  while (end < data.length && data[end] !== quote) end += data[end] === backslash ? 2 : 1;
  return end;
}

const bytesKey = "$bytes";
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Reads a JSON text, with the bytes in it. @throws MUSTER_ERR_MESSAGE_MALFORMED */
export function readJson(data: Uint8Array): unknown {
  const text = textOf(data);
  const value: unknown = text.includes(`"${bytesKey}"`) ? parse(text, (_, inner) => bytesIn(inner)) : parse(text);
  return value;
}

function textOf(data: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch (error) {
    throw errors.MessageMalformed({ reason: "it is no UTF-8" }, error);
  }
}

function parse(text: string, revive?: (key: string, value: unknown) => unknown): unknown {
  try {
    return JSON.parse(text, revive);
  } catch (error) {
    throw errors.MessageMalformed({ reason: messageOf(error) }, error);
  }
}

/** The bytes that an object stands for; any other value as it is. An object that is more than its bytes stays one, and no schema takes it. */
function bytesIn(value: unknown): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, bytesKey)) return value;
  const text: unknown = Reflect.get(value, bytesKey);
  if (typeof text !== "string" || Object.keys(value).length > 1 || !base64.test(text)) return value;
  return Uint8Array.from(Buffer.from(text, "base64"));
}

/** Writes plain data as JSON, with the bytes in it. */
export function writeJson(value: unknown): Uint8Array {
  const text = hasBytes(value) ? JSON.stringify(value, replaceBytes) : JSON.stringify(value);
  return new TextEncoder().encode(text);
}

function hasBytes(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (value instanceof Uint8Array) return true;
  return (Array.isArray(value) ? value : Object.values(value)).some(hasBytes);
}

/** A buffer is turned into JSON of its own before it comes here: it is read where it stands. */
function replaceBytes(this: Readonly<Record<string, unknown>>, key: string, value: unknown): unknown {
  const own = this[key];
  return own instanceof Uint8Array ? { [bytesKey]: Buffer.from(own).toString("base64") } : value;
}
