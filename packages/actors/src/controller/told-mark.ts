/** How far the public facts of the journal are told: a record says it, so that a successor tells again what lies behind it. */

/** Follows the facts of one controller, in the order of their records. */
export class ToldMark {
  /** By record, how many of its facts the broker has not stored. */
  readonly #open = new Map<number, { left: number }>();

  /** A fact of record `seq` is to be said. @returns To be called once it is stored, or can never be. */
  says(seq: number): () => void {
    const facts = this.#open.get(seq) ?? { left: 0 };
    facts.left += 1;
    this.#open.set(seq, facts);
    return () => {
      facts.left -= 1;
      if (facts.left === 0) this.#open.delete(seq);
    };
  }

  /** The last record up to which everything is told, when all facts up to record `lastSeq` were given to {@link says}. */
  upTo(lastSeq: number): number {
    const [first] = this.#open.keys();
    return first === undefined ? lastSeq : Math.min(lastSeq, first - 1);
  }
}
