/** The lines of a file of any size, one at a time. */
import { createReadStream } from "node:fs";

/** One line. */
export interface FileLine {
  /** From 1. */
  readonly number: number;
  /** `null` when it is longer than any line of a run. */
  readonly text: string | null;
  /** False for the last one when nothing ends it: whoever wrote it was interrupted. */
  readonly isEnded: boolean;
}

/** Far more than the longest event. */
const lineBytesMax = 32 * 1024 ** 2;
const newline = 0x0a;

/** How to read. */
export interface ReadingOptions {
  /** Hears how many bytes were read since the last time. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Reads the lines; empty ones are passed over. */
export async function* linesOf(path: string, { onBytes, signal }: ReadingOptions = {}): AsyncGenerator<FileLine> {
  let number = 0;
  let parts: Uint8Array[] = [];
  let held = 0;
  const take = (piece: Uint8Array): void => {
    if (held <= lineBytesMax) parts.push(piece);
    held += piece.byteLength;
  };
  const line = (isEnded: boolean): FileLine | null => {
    const text = held > lineBytesMax ? null : Buffer.concat(parts).toString("utf8");
    parts = [];
    held = 0;
    number += 1;
    return text === "" ? null : { number, text, isEnded };
  };
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 ** 2, ...(signal ? { signal } : {}) })) {
    const bytes = chunk as Uint8Array;
    let from = 0;
    for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, from)) {
      take(bytes.subarray(from, at));
      from = at + 1;
      const whole = line(true);
      if (whole) yield whole;
    }
    take(bytes.subarray(from));
    onBytes?.(bytes.byteLength);
  }
  const rest = held > 0 ? line(false) : null;
  if (rest) yield rest;
}
