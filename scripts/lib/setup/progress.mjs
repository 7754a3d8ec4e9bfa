/** How far a step is, from what its command writes: Ninja says `[3/40] Building …`, make says `[ 12%] Building …`. */

const said = /\[ *(?:(\d{1,3})%|(\d+)\/(\d+))\]/g;

/** Where there is no terminal, a share is told when it is so much more than the last one that was told, or after so long. */
const stride = 10;
const quietMs = 20_000;
const redrawMs = 1_000;

/**
 * @typedef {object} ProgressOptions
 * @property {(text: string) => void} say
 * @property {string} label - What the line of the step begins with.
 * @property {boolean} isTerminal - The line can be drawn again in its place.
 * @property {() => number} now - Milliseconds.
 */

/** Tells of progress on the line of a step, so that minutes of compiling are not minutes of silence. */
export class StepLine {
  #options;
  #startedMs;
  #toldMs;
  #told = 0;
  #rest = "";
  #words = "";
  /** @type {ReturnType<typeof setInterval> | null} */
  #timer = null;

  /** @param {ProgressOptions} options */
  constructor(options) {
    this.#options = options;
    this.#startedMs = options.now();
    this.#toldMs = this.#startedMs;
    options.say(`${options.label} … `);
    this.#timer = setInterval(() => this.tick(), redrawMs);
    this.#timer.unref();
  }

  /** Takes what the command writes. @param {Buffer | string} chunk */
  take(chunk) {
    const text = this.#rest + chunk.toString();
    this.#rest = text.slice(text.lastIndexOf("\n") + 1);
    for (const [, share, files, all] of text.matchAll(said)) {
      const now = share === undefined ? (100 * Number(files)) / Number(all) : Number(share);
      this.#words = share === undefined ? `${files} of ${all} files` : `${share} %`;
      if (now >= this.#told + stride && now < 100) {
        this.#told = now - (now % stride);
        this.#tell();
      }
    }
  }

  /** Some time has passed. */
  tick() {
    if (this.#options.isTerminal || this.#options.now() - this.#toldMs >= quietMs) this.#tell();
  }

  /** Ends the line. @param {string} result */
  end(result) {
    if (this.#timer) clearInterval(this.#timer);
    const { say, label, isTerminal } = this.#options;
    say(`${isTerminal ? `\r${label} … ` : ""}${result}${isTerminal ? "\u001b[K" : ""}\n`);
  }

  #tell() {
    const { say, label, isTerminal, now } = this.#options;
    this.#toldMs = now();
    const elapsed = `${Math.round((now() - this.#startedMs) / 1000)} s`;
    const words = [this.#words, elapsed].filter(Boolean).join(", ");
    say(isTerminal ? `\r${label} … ${words}\u001b[K` : `${words} … `);
  }
}
