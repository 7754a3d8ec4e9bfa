/**
 * A line at the bottom of a terminal that is redrawn in place, at most five times a second and when the window changes, with lines of news that
 * scroll away above it.
 */
import type { Clock } from "@muster/base";
import { paintedNews } from "./paint.ts";
import type { Terminal } from "./terminal.ts";
import { wrapped } from "./wrap.ts";

const redrawMs = 200;
const hideCursor = "\u001b[?25l";
const showCursor = "\u001b[?25h";
const widthMin = 20;

/** A row for a width, in plain text and as it is written. */
export interface Row {
  readonly plain: string;
  readonly painted: string;
}

/** What a live line is made from. */
export interface LiveLineOptions {
  readonly terminal: Terminal;
  readonly clock: Clock;
  /** The row as it is now; no longer than `width`. */
  readonly row: (width: number) => Row;
}

/** One live line. Nothing is written before the first change. */
export class LiveLine {
  readonly #options: LiveLineOptions;
  readonly #stopResize: () => void;
  #isOpen = false;
  #hasEnded = false;
  #drawnAtMs = Number.NEGATIVE_INFINITY;
  #drawnLength = 0;
  #cancel: (() => void) | null = null;

  constructor(options: LiveLineOptions) {
    this.#options = options;
    this.#stopResize = options.terminal.onResize(() => {
      if (this.#isOpen && !this.#hasEnded) this.#draw();
    });
  }

  /** The row is another one. */
  changed(): void {
    if (this.#hasEnded) return;
    const { clock } = this.#options;
    const waitMs = this.#drawnAtMs + redrawMs - clock.now();
    if (waitMs <= 0) this.#draw();
    else this.#cancel ??= clock.after(waitMs, () => this.#draw());
  }

  /** Writes a line above the live one, over several rows where it is long. */
  note(line: string, time = ""): void {
    if (this.#hasEnded) return;
    const { terminal } = this.#options;
    const rows = wrapped(`${time}${line}`, this.#width()).join("\n");
    const painted = `${time}${paintedNews(rows.slice(time.length), terminal.hasColour)}`;
    terminal.write(`${this.#isOpen ? this.#clear() : ""}${painted}\n`);
    if (this.#isOpen) this.#draw();
  }

  /** Draws the last state, ends the line and gives the cursor back. Harmless when called twice; later calls do nothing. */
  end(): void {
    if (this.#hasEnded) return;
    if (this.#isOpen) this.#draw();
    this.#hasEnded = true;
    this.#stopResize();
    this.#cancel?.();
    if (this.#isOpen) this.#options.terminal.write(`\n${showCursor}`);
  }

  /** One column stays free: a full line would wrap. */
  #width(): number {
    return Math.max(widthMin, this.#options.terminal.columns() - 1);
  }

  #draw(): void {
    this.#cancel?.();
    this.#cancel = null;
    const { terminal, clock, row } = this.#options;
    this.#drawnAtMs = clock.now();
    const { plain, painted } = row(this.#width());
    terminal.write(`${this.#isOpen ? this.#start() : `${hideCursor}\r`}${painted}\u001b[K`);
    this.#drawnLength = plain.length;
    this.#isOpen = true;
  }

  /** To the start of the row; in a window that has become narrower it is broken into several. */
  #start(): string {
    const above = Math.ceil(this.#drawnLength / this.#options.terminal.columns()) - 1;
    return above > 0 ? `\r\u001b[${above}A\u001b[J` : "\r";
  }

  #clear(): string {
    return `${this.#start()}\u001b[K`;
  }
}
