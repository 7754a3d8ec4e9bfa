/** Orders that the journal has led to and that may be sent. Of each a sum is kept: a large job gives many, and some name hundreds of members. */
import { RunningHash } from "./digest.ts";

/** An order as the journal leads to it, or as it was sent. */
interface Intent {
  readonly to: string;
  readonly incarnation: string;
  readonly kind: string;
  readonly body: unknown;
}

export class Intents {
  readonly #sums = new Set<string>();
  /** One body often goes to many in a row. */
  #last: { readonly body: unknown; readonly sum: string } = { body: null, sum: "null" };

  add(intent: Intent): void {
    this.#sums.add(this.#sumOf(intent));
  }

  has(intent: Intent): boolean {
    return this.#sums.has(this.#sumOf(intent));
  }

  #sumOf({ to, incarnation, kind, body }: Intent): string {
    const hash = new RunningHash();
    // What an admission says beside that is the job's configuration, which no decision holds.
    const said = kind === "replica.registered" ? "" : this.#bodySum(body);
    for (const text of [to, incarnation, kind, said]) hash.text(text);
    return hash.digest();
  }

  #bodySum(body: unknown): string {
    if (this.#last.body !== body) {
      const hash = new RunningHash();
      hash.text(JSON.stringify(body));
      this.#last = { body, sum: hash.digest() };
    }
    return this.#last.sum;
  }
}
