/** The last sentence of a process that ended: what it says of itself, or else what its runtime says of a fault that nobody caught. */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { exitCodes } from "../lifecycle/exit-codes.ts";

/** Before the sentence with which a process of Muster ends. */
const mark = "muster: ";
const bytesMax = 16 * 1024;
/** `TypeError: x is not a function`, `Error [ERR_X]: …`, `MUSTER_ERR_X: …`, and V8's `FATAL ERROR: …`, behind which come frames. */
const fault = /^(?:(?:Uncaught )?[\w.]*(?:Error|Exception|MUSTER_ERR_\w+)(?: \[\w+\])?|FATAL ERROR): /;

/** Writes the sentence with which a process ends where whoever started it looks for it. */
export function sayLastWords(sentence: string, stream: { write(text: string): unknown } = process.stderr): void {
  stream.write(`${mark}${oneLine(sentence)}\n`);
}

/** How a process ended, as Node tells it. */
interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
}

/**
 * What a process said last on its standard error, one line. Nothing of one that somebody else ended, or that ended as it should.
 *
 * @param log - Its file, and where its own words begin there.
 */
export function lastWordsOf(
  { code, signal }: Exit,
  log: { readonly path: string; readonly from: number },
): { readonly words?: string } {
  const isItsOwn =
    signal === null
      ? code !== exitCodes.ok && code !== exitCodes.temporary
      : signal !== "SIGKILL" && signal !== "SIGTERM";
  const words = isItsOwn ? readLastWords(log) : undefined;
  return words === undefined ? {} : { words };
}

function readLastWords({ path, from }: { readonly path: string; readonly from: number }): string | undefined {
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    const start = Math.max(from, size - bytesMax);
    const buffer = Buffer.alloc(Math.max(0, size - start));
    return lastWordsIn(buffer.toString("utf8", 0, readSync(file, buffer, 0, buffer.length, start)));
  } finally {
    closeSync(file);
  }
}

/** The last sentence in what a process wrote. Pure. */
function lastWordsIn(text: string): string | undefined {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const own = lines.findLast((line) => line.startsWith(mark))?.slice(mark.length);
  const found = own ?? lines.findLast((line) => fault.test(line)) ?? lines.at(-1);
  return found === undefined ? undefined : oneLine(found);
}

const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();
