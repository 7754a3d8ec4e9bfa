/** Which worker has which routing key: a table of bounded size that forgets what was not used for the longest time. Pure but for its own rows. */

/** The bounds of a table. */
export interface StickyOptions {
  readonly keysMax: number;
  /** A key that was not used for so long is forgotten. */
  readonly idleMs: number;
}

interface Pin {
  readonly workerId: string;
  readonly usedMs: number;
}

/** Keys and their workers. */
export class StickyTable {
  readonly #options: StickyOptions;
  /** Least recently used first. */
  readonly #pins = new Map<string, Pin>();

  constructor(options: StickyOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#pins.size;
  }

  /** The worker of a key, `null` for a new or a forgotten one. */
  workerOf(key: string, nowMs: number): string | null {
    const pin = this.#pins.get(key);
    return pin && nowMs - pin.usedMs < this.#options.idleMs ? pin.workerId : null;
  }

  /** The key has this worker from now on, and was used now. */
  pin(key: string, workerId: string, nowMs: number): void {
    this.#pins.delete(key);
    this.#pins.set(key, { workerId, usedMs: nowMs });
    for (const [oldest, { usedMs }] of this.#pins) {
      if (this.#pins.size <= this.#options.keysMax && nowMs - usedMs < this.#options.idleMs) break;
      this.#pins.delete(oldest);
    }
  }
}
