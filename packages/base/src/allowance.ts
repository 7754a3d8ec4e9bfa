/** So many at once, and so many per second after that. The caller brings the time, from any origin that does not change. */
export class Allowance {
  readonly #burst: number;
  readonly #perSecond: number;
  #left: number;
  #atMs = 0;

  constructor({ burst, perSecond }: { readonly burst: number; readonly perSecond: number }) {
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#left = burst;
  }

  /** Uses one up. @returns False when none is left at this time. */
  take(nowMs: number): boolean {
    this.#left = Math.min(this.#burst, this.#left + ((nowMs - this.#atMs) / 1_000) * this.#perSecond);
    this.#atMs = nowMs;
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}
