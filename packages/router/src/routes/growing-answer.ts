/** An answer that several clients follow while it is drawn. Each reads it at its own pace: what one did not take yet is kept once for all of them. */
import { choiceOf, type Table } from "../core/dialect.ts";

/** Hears each piece of text as it is drawn, with what is known of the answer. */
export type Grow = (head: Table, piece: string) => void;

/** How an answer ended. */
export type AnswerEnd = { readonly answer: Table } | { readonly error: unknown };

/** One answer on its way. */
export class GrowingAnswer {
  #pieces: string[] = [];
  #head: Table | null = null;
  #end: AnswerEnd | null = null;
  #draft = 0;
  #waiting: (() => void)[] = [];

  /** What its beginning said; `null` before. */
  get head(): Table | null {
    return this.#head;
  }

  /** All that was said so far, in order. */
  get pieces(): readonly string[] {
    return this.#pieces;
  }

  get end(): AnswerEnd | null {
    return this.#end;
  }

  /** Another number once what was said is not how the answer goes: it was drawn anew, and came out otherwise. */
  get draft(): number {
    return this.#draft;
  }

  readonly grow: Grow = (head, piece) => {
    if (this.#end !== null) return;
    this.#head ??= head;
    if (piece !== "") this.#pieces.push(piece);
    this.#changed();
  };

  /** Ends with this answer, once it is there. */
  follow(answer: Promise<Table>): void {
    answer.then(
      (whole) => this.#ends(whole),
      (error: unknown) => {
        this.#end = { error };
        this.#changed();
      },
    );
  }

  /** Resolves at the next piece, and at the end. */
  next(): Promise<void> {
    if (this.#end !== null) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #ends(answer: Table): void {
    const { text } = choiceOf(answer);
    const said = this.#pieces.join("");
    if (text.startsWith(said)) {
      if (text.length > said.length) this.#pieces.push(text.slice(said.length));
    } else {
      this.#draft++;
      this.#pieces = [text];
    }
    this.#head ??= answer;
    this.#end = { answer };
    this.#changed();
  }

  #changed(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}
