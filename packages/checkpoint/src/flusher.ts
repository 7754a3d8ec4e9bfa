/** Flushing of files while they are written. */
import type { WritableFile } from "./files.ts";

/** Bytes that are flushed at once: each flush costs a commit of the file system, and the last one is waited for while nothing else is left to do. */
const flushBytes = 32 * 1024 * 1024;

/** Bytes that may wait for a flush. */
const unflushedMax = 4 * flushBytes;

/** Flushes files, one at a time while they are written, each with all that was written to it. After a failure nothing is flushed any more. */
export class Flusher {
  /** Bytes written since its last flush began, by file; a file that was never flushed is here, too. */
  readonly #unflushed = new Map<WritableFile, number>();
  #running: Promise<void> | null = null;
  readonly #faults: unknown[] = [];

  /** Takes a file, which may stay empty. */
  add(file: WritableFile): void {
    this.#unflushed.set(file, 0);
  }

  /** Bytes of a file were written. Waits where too many are not flushed. @throws What a flush failed with. */
  async wrote(file: WritableFile, bytes: number): Promise<void> {
    this.#unflushed.set(file, (this.#unflushed.get(file) ?? 0) + bytes);
    while (this.#running && this.#waiting() >= unflushedMax) await this.#running;
    this.#check();
    if (!this.#running && this.#waiting() >= flushBytes) this.#begin();
  }

  /** Flushes what is left, when nobody writes any more. @throws What a flush failed with. */
  async end(): Promise<void> {
    await this.idle();
    this.#check();
    // Files that are flushed together share a commit.
    await Promise.all([...this.#unflushed.keys()].map((file) => this.#flush(file)));
    this.#check();
  }

  /** Waits until nothing is flushed. */
  async idle(): Promise<void> {
    await this.#running;
  }

  #waiting(): number {
    return [...this.#unflushed.values()].reduce((sum, bytes) => sum + bytes, 0);
  }

  /** The file with the most to flush is next. */
  #begin(): void {
    const [[file] = []] = [...this.#unflushed].sort(([, one], [, other]) => other - one);
    if (!file) return;
    this.#running = this.#flush(file).then(() => {
      this.#running = null;
    });
  }

  /** Never rejects: whoever writes next, or ends, hears of a failure. */
  async #flush(file: WritableFile): Promise<void> {
    this.#unflushed.delete(file);
    await file.sync().catch((error: unknown) => this.#faults.push(error));
  }

  #check(): void {
    if (this.#faults.length > 0) throw this.#faults[0];
  }
}
