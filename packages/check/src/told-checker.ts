/** What the journal leads to in public is told (S37): every fact, in the order of the records, whoever tells it and however many tellers end. */
import type { Announcement } from "@muster/actors/controller";
import type { Verdicts } from "./judge.ts";

/** Compares the facts of the journal with what is told. */
export class ToldChecker {
  readonly #judge: Verdicts;
  /** Facts of the journal that nobody has told, in order: what kind each is by its id. */
  readonly #wanted = new Map<string, string>();

  constructor(judge: Verdicts) {
    this.#judge = judge;
  }

  /** A record was stored that leads to these facts. */
  recorded(facts: readonly Announcement[]): void {
    for (const { id, effect } of facts) this.#wanted.set(id, effect.kind);
  }

  /** A fact of a record was told for the first time. */
  told(id: string): void {
    const isRecorded = this.#wanted.has(id);
    this.#judge.require(isRecorded, "S4", () => `event ${id} was told before the journal led to it`);
    if (!isRecorded) return;
    for (const [before, kind] of this.#wanted) {
      this.#wanted.delete(before);
      if (before === id) return;
      this.#judge.require(false, "S37", () => `event ${id} is told, and nobody has told ${kind} before it (${before})`);
    }
  }
}
