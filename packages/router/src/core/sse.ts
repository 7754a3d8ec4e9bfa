/** Server-sent events, as far as engines use them: `data:` lines, ended by an empty line. Pure. */

const [lineFeed, carriageReturn] = [10, 13];

/** Cuts a stream of bytes into whole events, each with its end. What is not whole yet waits. Each byte is looked at once. */
export class EventSplitter {
  #parts: Buffer[] = [];
  #waiting = 0;
  /** The line that is not over yet has nothing in it but perhaps a carriage return. */
  #isLineEmpty = true;

  /** Bytes that wait for the end of their event. */
  get waiting(): number {
    return this.#waiting;
  }

  /** @returns The events that became whole. */
  push(chunk: Buffer): readonly Buffer[] {
    const events: Buffer[] = [];
    let from = 0;
    let line = 0;
    for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, line)) {
      const isEmpty = this.#isLineEmpty && isBlank(chunk, line, end);
      this.#isLineEmpty = true;
      line = end + 1;
      if (!isEmpty) continue;
      this.#keep(chunk.subarray(from, line));
      events.push(this.rest() as Buffer);
      from = line;
    }
    this.#isLineEmpty &&= isBlank(chunk, line, chunk.length);
    this.#keep(chunk.subarray(from));
    return events;
  }

  /** Takes what waits: at the end of a stream, the last event of an engine that writes no empty line behind it. `null` when nothing waits. */
  rest(): Buffer | null {
    const [only] = this.#parts;
    if (only === undefined) return null;
    const bytes = this.#parts.length === 1 ? only : Buffer.concat(this.#parts);
    this.#parts = [];
    this.#waiting = 0;
    return bytes;
  }

  #keep(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.#parts.push(bytes);
    this.#waiting += bytes.length;
  }
}

function isBlank(bytes: Buffer, from: number, to: number): boolean {
  return to === from || (to === from + 1 && bytes[from] === carriageReturn);
}

/** The data of an event; `null` for comments and for events without data. */
export function dataOf(event: Buffer): string | null {
  const lines = event.toString("utf8").split(/\r?\n/);
  const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).replace(/^ /, ""));
  return data.length === 0 ? null : data.join("\n");
}

/** The event with which streams of engines end. */
export const doneData = "[DONE]";

/** An event of this data, which has no line breaks. */
export function eventOf(data: string): string {
  return `data: ${data}\n\n`;
}
