/** Who came without the join token: the operator hears of the first at once, and then of the number, once a minute at most. */
import type { Clock } from "@muster/base";

/** Between two lines. */
const quietMs = 60_000;
/** Addresses that a line names. */
const namedMax = 4;

/** Counts connections that were refused; nothing is kept longer than a minute, and of that a number and four addresses. */
export class Refusals {
  readonly #clock: Clock;
  readonly #say: (line: string) => void;
  #named = new Set<string>();
  #count = 0;
  #cancel: (() => void) | null = null;

  constructor(clock: Clock, say: (line: string) => void) {
    this.#clock = clock;
    this.#say = say;
  }

  /** One more. @param from - Its address. */
  came(from: string): void {
    if (this.#cancel === null) {
      this.#say(`a connection from ${from} was refused: it has not the join token of this master`);
      this.#wait();
      return;
    }
    this.#count += 1;
    if (this.#named.size < namedMax) this.#named.add(from);
  }

  close(): void {
    this.#cancel?.();
    this.#cancel = null;
  }

  #wait(): void {
    this.#cancel = this.#clock.after(quietMs, () => {
      this.#cancel = null;
      if (this.#count === 0) return;
      const [count, named] = [this.#count, [...this.#named]];
      this.#count = 0;
      this.#named = new Set();
      const more = named.length === namedMax ? " and maybe others" : "";
      this.#say(`${count} more without the join token in the last minute, from ${named.join(", ")}${more}`);
      this.#wait();
    });
  }
}
