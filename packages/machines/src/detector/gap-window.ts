/** The last gaps between beats of one member, with their mean and deviation at hand. */

/** Gaps remembered (reliability 4.2, W). */
const size = 200;

/** A ring of gaps in ms. Its sums are made anew at each turn, so that rounding errors do not grow. */
export class GapWindow {
  readonly #gaps = new Float32Array(size);
  #count = 1;
  #next = 1;
  #sum: number;
  #squares: number;

  /** @param firstMs - The gap that is expected before any was seen. */
  constructor(firstMs: number) {
    this.#gaps[0] = firstMs;
    this.#sum = firstMs;
    this.#squares = firstMs * firstMs;
  }

  add(gapMs: number): void {
    const old = this.#count === size ? (this.#gaps[this.#next] as number) : 0;
    if (this.#count < size) this.#count += 1;
    this.#gaps[this.#next] = gapMs;
    this.#sum += gapMs - old;
    this.#squares += gapMs * gapMs - old * old;
    this.#next += 1;
    if (this.#next < size) return;
    this.#next = 0;
    this.#addUp();
  }

  get meanMs(): number {
    return this.#sum / this.#count;
  }

  get deviationMs(): number {
    const { meanMs } = this;
    return Math.sqrt(Math.max(0, this.#squares / this.#count - meanMs * meanMs));
  }

  #addUp(): void {
    this.#sum = 0;
    this.#squares = 0;
    for (let i = 0; i < this.#count; i++) {
      const gap = this.#gaps[i] as number;
      this.#sum += gap;
      this.#squares += gap * gap;
    }
  }
}
