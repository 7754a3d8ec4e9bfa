/**
 * A file of lines that grows as long as a job goes on, within a bound: a part that is full gets a number and the next one begins; when all parts
 * together are too large, the oldest goes. Lines are appended and never written again.
 */
import { appendFileSync, closeSync, openSync, renameSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { firstLine, partName, partNumbers, partsIn, readLines } from "@muster/check/files";

/** What files of a run that grow are written with. */
export interface GrowingOptions {
  /** Folder of the run. */
  readonly directory: string;
  /** Writes; what can not be written is told of, and the job goes on. @returns False when it was not written. */
  readonly attempt: (path: string, write: () => void) => boolean;
  /** Bytes of all parts of one file. */
  readonly bytesMax: number;
  /** Hears, in words, of parts that are dropped. */
  readonly onDropped: (detail: string) => void;
}

/** A full part is this share of all. */
const share = 8;
/** Lines that a full disk does not take wait in memory, up to this; beyond it the oldest are lost. */
const heldBytesMax = 1024 ** 2;

/** The parts of one file. */
export class LineParts {
  readonly #options: GrowingOptions;
  readonly #name: string;
  readonly #path: string;
  /** Of the newest part; `null` before anything was written to it. */
  #bytes: number | null = null;
  #held: string[] = [];
  #heldBytes = 0;

  /** @param name - Of the file, without its ending. */
  constructor(name: string, options: GrowingOptions) {
    this.#options = options;
    this.#name = name;
    this.#path = join(options.directory, partName(name));
  }

  /** Paths of the parts that are there, the oldest first. */
  get paths(): readonly string[] {
    return partsIn(this.#options.directory, this.#name).map((part) => join(this.#options.directory, part));
  }

  append(line: string): void {
    this.#held.push(`${line}\n`);
    this.#heldBytes += line.length + 1;
    while (this.#heldBytes > heldBytesMax && this.#held.length > 1) this.#heldBytes -= this.#held.shift()?.length ?? 0;
    this.flush();
  }

  /** Writes what a full disk did not take. */
  flush(): void {
    if (this.#held.length === 0) return;
    this.#options.attempt(this.#path, () => {
      for (let text = this.#held[0]; text !== undefined; text = this.#held[0]) {
        this.#write(text);
        this.#held.shift();
        this.#heldBytes -= text.length;
      }
    });
  }

  /** The file is there from now on, if empty. */
  begin(): void {
    this.#options.attempt(this.#path, () => closeSync(openSync(this.#path, "a", 0o600)));
  }

  /** Removes the first line of these parts that is meant, and all that follow. The parts are the newest ones, the oldest of them first. */
  cut(isMeant: (line: string) => boolean, paths = this.paths): void {
    this.#held = this.#held.filter((line) => !isMeant(line));
    this.#heldBytes = this.#held.reduce((sum, { length }) => sum + length, 0);
    for (const [index, path] of [...paths.entries()].reverse()) {
      const first = firstLine(path);
      const isWhole = first === null || isMeant(first);
      if (isWhole && index > 0) rmSync(path);
      else truncateSync(path, isWhole ? 0 : firstMeant(path, isMeant));
      if (!isWhole) break;
    }
    this.#bytes = null;
  }

  /** What comes next begins a file of its own. */
  close(): void {
    if (sizeOf(this.#path) > 0) this.#setAside();
    closeSync(openSync(this.#path, "a", 0o600));
  }

  #write(text: string): void {
    const added = Buffer.byteLength(text);
    let before = this.#bytes ?? sizeOf(this.#path);
    if (before > 0 && before + added > this.#options.bytesMax / share) {
      this.#setAside();
      before = 0;
    }
    try {
      appendFileSync(this.#path, text, { mode: 0o600 });
      this.#bytes = before + added;
    } catch (error) {
      // A disk that is full takes half a line.
      if (sizeOf(this.#path) > before) truncateSync(this.#path, before);
      throw error;
    }
  }

  #setAside(): void {
    const { directory, bytesMax, onDropped } = this.#options;
    const numbers = partNumbers(directory, this.#name);
    const at = (number: number): string => join(directory, partName(this.#name, number));
    const number = (numbers.at(-1) ?? 0) + 1;
    renameSync(this.#path, at(number));
    this.#bytes = null;
    let total = [...numbers, number].reduce((sum, one) => sum + sizeOf(at(one)), 0);
    for (const oldest of numbers) {
      if (total <= bytesMax - bytesMax / share) return;
      total -= sizeOf(at(oldest));
      rmSync(at(oldest));
      onDropped(`${partName(this.#name, oldest)} is dropped: the run keeps its newest ${this.#name} (--history)`);
    }
  }
}

/** Where the first line that is meant begins; without one where the last one ends: what follows it is half a line. */
function firstMeant(path: string, isMeant: (line: string) => boolean): number {
  let end = 0;
  for (const { text, from, to } of readLines(path)) {
    if (isMeant(text)) return from;
    end = to;
  }
  return end;
}

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
