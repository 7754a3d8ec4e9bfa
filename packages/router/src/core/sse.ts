/** Server-sent events, as far as engines use them: `data:` lines, ended by an empty line. Pure. */

/** Cuts a stream of bytes into whole events, each with its end. What is not whole yet waits. */
export class EventSplitter {
  #rest: Buffer = Buffer.alloc(0);

  /** Bytes that wait for the end of their event. */
  get waiting(): number {
    return this.#rest.length;
  }

  /** @returns The events that became whole. */
  push(chunk: Buffer): readonly Buffer[] {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const events: Buffer[] = [];
    let from = 0;
    for (let end = endOfEvent(bytes, from); end !== -1; end = endOfEvent(bytes, from)) {
      events.push(bytes.subarray(from, end));
      from = end;
    }
    this.#rest = bytes.subarray(from);
    return events;
  }
}

/** Index behind the empty line, -1 when there is none. */
function endOfEvent(bytes: Buffer, from: number): number {
  const short = bytes.indexOf("\n\n", from, "latin1");
  const long = bytes.indexOf("\r\n\r\n", from, "latin1");
  if (short === -1 && long === -1) return -1;
  return long === -1 || (short !== -1 && short < long) ? short + 2 : long + 4;
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
