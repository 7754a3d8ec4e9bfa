/**
 * Ends of one connection to the broker. A few are bad luck and forgiven in full; a connection that ends again and again is a fault of its
 * own, which must neither hide others for ever nor stay without a word.
 */

/** As many within a window are forgiven. */
const forgivenMax = 3;
/**
 * Length of the window in dead time-outs. Whoever is forgiven again and again at the highest rate, every ten time-outs, leaves time to find the
 * most patiently watched member dead by silence alone, which takes nine.
 */
const windowTimeouts = 30;
const rememberedMax = 64;
/** As many within a window are no bad luck: whoever has them is of less use than nobody in its place. */
const endlessMin = 10;

/** Counts them. */
export class Outages {
  readonly #windowMs: number;
  #endsMs: readonly number[] = [];
  #saidMs = Number.NEGATIVE_INFINITY;

  constructor(deadAfterMs: number) {
    this.#windowMs = windowTimeouts * deadAfterMs;
  }

  /** The connection ended. @returns True when that is forgiven. */
  ended(nowMs: number): boolean {
    this.#endsMs = [...this.#endsMs.filter((atMs) => nowMs - atMs < this.#windowMs), nowMs].slice(-rememberedMax);
    return this.#endsMs.length <= forgivenMax;
  }

  /** True when it ended more often than is forgiven. */
  isMany(nowMs: number): boolean {
    return this.#within(nowMs) > forgivenMax;
  }

  /** True when it ends again and again. */
  isEndless(nowMs: number): boolean {
    return this.#within(nowMs) >= endlessMin;
  }

  /** How often it ended, in words. */
  text(nowMs: number): string {
    return `ended ${this.#within(nowMs)} times within ${Math.round(this.#windowMs / 1_000)} s`;
  }

  /** How often it ended, in words, when that is too often and was not said within a window. */
  word(nowMs: number): string | null {
    if (!this.isMany(nowMs) || nowMs - this.#saidMs < this.#windowMs) return null;
    this.#saidMs = nowMs;
    return this.text(nowMs);
  }

  #within(nowMs: number): number {
    return this.#endsMs.filter((atMs) => nowMs - atMs < this.#windowMs).length;
  }
}
