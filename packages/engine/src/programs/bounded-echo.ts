/** What programs print, handed on to the log of this process: so much of it that nobody's disk or patience is filled. */

/** Bytes of one program that are handed on in one second, at most. */
const perSecond = 64 * 1024;

/** Hands on text, up to a rate; says how much it left out. */
export class BoundedEcho {
  readonly #write: (text: string) => void;
  readonly #now: () => number;
  #sinceMs = Number.NEGATIVE_INFINITY;
  #bytes = 0;
  #leftOut = 0;

  constructor(write: (text: string) => void, now: () => number = () => performance.now()) {
    this.#write = write;
    this.#now = now;
  }

  take(text: string): void {
    if (this.#now() - this.#sinceMs >= 1_000) this.#begin();
    const bytes = Buffer.byteLength(text);
    if (this.#bytes + bytes > perSecond) {
      this.#leftOut += bytes;
      return;
    }
    this.#bytes += bytes;
    this.#write(text);
  }

  /** Says what was left out last, once nothing more comes. */
  end(): void {
    if (this.#leftOut > 0) this.#write(`\n[${this.#leftOut} bytes of output were left out]\n`);
    this.#leftOut = 0;
  }

  #begin(): void {
    this.end();
    this.#sinceMs = this.#now();
    this.#bytes = 0;
  }
}
