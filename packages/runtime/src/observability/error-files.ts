/**
 * What processes write to their standard error, in files of bounded size: a process holds its file itself, so whoever started it looks at it now and
 * then, and leaves the end of one that is too long.
 */
import { closeSync, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { type Clock, every, type Logger } from "@muster/base";

/** A file above this is cut. */
const fileBytesMax = 8 * 1024 ** 2;

/** What is left of it. */
const keptBytes = 1024 ** 2;

const lookEveryMs = 5_000;

/** Files of processes that run. They must have been opened to append. */
export class ErrorFiles {
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** By path, who wants to know how much is left of one that was cut. */
  readonly #files = new Map<string, (leftBytes: number) => void>();
  #stop: (() => void) | null = null;

  constructor({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** A process writes to this file from now on. */
  add(path: string, onCut: (leftBytes: number) => void = () => {}): void {
    this.#files.set(path, onCut);
    this.#stop ??= every(this.#clock, lookEveryMs, () => this.#look());
  }

  /** The process has ended. */
  remove(path: string): void {
    this.#cut(path);
    this.#files.delete(path);
    if (this.#files.size > 0) return;
    this.#stop?.();
    this.#stop = null;
  }

  #look(): void {
    for (const path of this.#files.keys()) this.#cut(path);
  }

  #cut(path: string): void {
    try {
      const bytes = cut(path);
      if (bytes === 0) return;
      this.#files.get(path)?.(keptBytes);
      this.#logger.warn({ path, bytes }, "what a process wrote to its standard error is cut: only the end is left");
    } catch (error) {
      this.#logger.warn({ path, error }, "what a process writes to its standard error can not be looked at");
    }
  }
}

/** @returns Bytes that were cut off. */
function cut(path: string): number {
  const file = openSync(path, "a+", 0o600);
  try {
    const { size } = fstatSync(file);
    if (size <= fileBytesMax) return 0;
    const end = Buffer.alloc(keptBytes);
    const read = readSync(file, end, 0, keptBytes, size - keptBytes);
    ftruncateSync(file, 0);
    writeSync(file, end.subarray(0, read));
    return size - read;
  } finally {
    closeSync(file);
  }
}
