/**
 * Data paths that stay broken between members whose control paths are well (reliability 2, C3): both ends live and miss each other
 * again and again. One of them must go, or every mesh fails.
 */

/** Failures of one pair before it counts as broken. */
const failuresMin = 3;
const pairsMax = 4_096;

interface Pair {
  readonly ends: readonly [string, string];
  count: number;
  firstMs: number;
  lastMs: number;
}

/** Which pairs of members miss each other. */
export class BrokenLinks {
  readonly #pairs = new Map<string, Pair>();

  get isEmpty(): boolean {
    return this.#pairs.size === 0;
  }

  /** `reporter` missed `missing` in a collective. */
  add(reporter: string, missing: string, nowMs: number): void {
    const ends = [reporter, missing].sort() as [string, string];
    const key = ends.join(" ");
    const pair = this.#pairs.get(key);
    if (!pair && this.#pairs.size >= pairsMax) this.#pairs.clear();
    if (pair) {
      pair.count += 1;
      pair.lastMs = nowMs;
    } else this.#pairs.set(key, { ends, count: 1, firstMs: nowMs, lastMs: nowMs });
  }

  /**
   * The member with the most broken links, of equals the youngest; `null` when there is none.
   *
   * @param living - Members that are heard, in order of arrival.
   * @param spanMs - A link is broken when it failed for at least this long; one that did not fail for that long is well again.
   */
  worst(living: readonly string[], nowMs: number, spanMs: number): string | null {
    const links = new Map<string, number>();
    for (const [key, { ends, count, firstMs, lastMs }] of this.#pairs) {
      if (nowMs - lastMs > spanMs) this.#pairs.delete(key);
      else if (count >= failuresMin && lastMs - firstMs >= spanMs && ends.every((end) => living.includes(end)))
        for (const end of ends) {
          // no mutant: who has more has more, whatever each counts
          const count = (links.get(end) ?? 0) + 1;
          links.set(end, count);
        }
    }
    return living.reduce<string | null>(
      (worst, id) => ((links.get(id) ?? 0) >= (links.get(worst ?? "") ?? 1) ? id : worst),
      null,
    );
  }

  /** A member is out: its links are nobody's business any more. */
  forget(id: string): void {
    for (const [key, { ends }] of this.#pairs) if (ends.includes(id)) this.#pairs.delete(key);
  }

  clear(): void {
    this.#pairs.clear();
  }
}
