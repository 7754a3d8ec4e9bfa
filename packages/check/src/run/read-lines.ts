/** The lines of a file of any size, for those who can not wait: read in pieces, and one of them held at a time. */
import { closeSync, openSync, readSync } from "node:fs";

/** One whole line. */
export interface PlacedLine {
  readonly text: string;
  /** Where it begins and where the next one does, in bytes. */
  readonly from: number;
  readonly to: number;
}

const pieceBytes = 1024 ** 2;
const newline = 0x0a;

/** Reads the lines that are ended; a last one that is cut is none. */
export function* readLines(path: string): Generator<PlacedLine, undefined> {
  const file = openSync(path, "r");
  try {
    const piece = Buffer.alloc(pieceBytes);
    let begun: Buffer[] = [];
    let from = 0;
    for (let at = 0; ; ) {
      const bytes = piece.subarray(0, readSync(file, piece, 0, pieceBytes, at));
      if (bytes.length === 0) return;
      let next = 0;
      for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline, next)) {
        const text = Buffer.concat([...begun, bytes.subarray(next, end)]).toString("utf8");
        begun = [];
        next = end + 1;
        yield { text, from, to: at + next };
        from = at + next;
      }
      begun.push(Buffer.from(bytes.subarray(next)));
      at += bytes.length;
    }
  } finally {
    closeSync(file);
  }
}

/** The first line; `null` where there is none. */
export function firstLine(path: string): string | null {
  for (const { text } of readLines(path)) return text;
  return null;
}
