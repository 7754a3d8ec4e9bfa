/** Memory of answers that are held until they are whole, of all requests together. */
export class AnswerMemory {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Counts a piece of an answer until {@link release}. @returns False when all together are too much. */
  hold(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes <= this.#bytesMax;
  }

  /** So much was dropped, or its client is done with it. */
  release(bytes: number): void {
    this.#bytes -= bytes;
  }
}
