/** A text that fills the window and is written again and again in the same place. What was on the terminal before scrolls away and stays. */
import type { Terminal } from "./terminal.ts";

const home = "\u001b[H";
const clearRest = "\u001b[J";
const clearRow = "\u001b[K";

/** What fits into a window: rows that are too long end with `…`, and of those that are too many the last one says how many. */
export function fitted(text: string, { columns, rows }: { readonly columns: number; readonly rows: number }): string {
  const lines = text.split("\n").map((line) => (line.length > columns ? `${line.slice(0, columns - 1)}…` : line));
  const rest = lines.length - rows;
  if (rest <= 0) return lines.join("\n");
  return [...lines.slice(0, rows - 1), `… ${rest + 1} more lines: make the window taller`].join("\n");
}

/** The window of a terminal. */
export class Screen {
  readonly #terminal: Terminal;
  #stopResize: () => void;
  #isOpen = false;
  #text: ((columns: number) => string) | null = null;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#stopResize = terminal.onResize(() => this.#draw());
  }

  /** Shows a text that is made for a width. */
  show(text: (columns: number) => string): void {
    this.#text = text;
    this.#draw();
  }

  /** The text stays; what is written next goes below. */
  close(): void {
    this.#stopResize();
    this.#stopResize = () => {};
  }

  #draw(): void {
    if (!this.#text) return;
    const columns = this.#terminal.columns();
    // The cursor waits in a row of its own.
    const rows = Math.max(2, this.#terminal.rows() - 1);
    const text = fitted(this.#text(columns), { columns, rows }).replaceAll("\n", `${clearRow}\n`);
    const before = this.#isOpen ? "" : "\n".repeat(rows);
    this.#terminal.write(`${before}${home}${text}${clearRow}\n${clearRest}`);
    this.#isOpen = true;
  }
}
