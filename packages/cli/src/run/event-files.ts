/** The public events of a job in the folder of its run: all in `events.jsonl`, commands of operators also in `audit.jsonl`; both in parts. */
import { basename } from "node:path";
import { type EventFields, eventLine, firstLine, lastRow, placeOf, readLines } from "@muster/check";
import type { EventMessage } from "@muster/client";
import { type GrowingOptions, LineParts } from "./line-parts.ts";

/** When an event was said is near the beginning of its line: enough to tell one from another. */
const comparedMax = 1024;

/** Where an event stands in the stream, and when it was said by the time of the job. */
interface EventPlace {
  readonly seq: number;
  readonly atMs: number;
}

/** An event that is in the files already. */
interface KnownEvent extends EventPlace {
  readonly path: string;
  readonly sum: string;
}

/**
 * Writes the events of a job as the broker has them. When a job goes on, the broker tells again what it still has: the files end with the first of
 * those, and the others are written anew. Where that one is in no file, because the broker's store was lost or what it had grew old, the files of
 * before stay as they are and others begin. Nothing is touched before an event has come.
 */
export class EventFiles {
  readonly #directory: string;
  readonly #events: LineParts;
  readonly #audit: LineParts;
  readonly #sums = { events: "", audit: "" };
  /** The first event that was told, where it is known. */
  #known: KnownEvent | null = null;
  #begun = false;

  constructor(options: GrowingOptions) {
    this.#directory = options.directory;
    this.#events = new LineParts("events", options);
    this.#audit = new LineParts("audit", options);
  }

  /** Hears of the first event before it is added. @returns Its time by the files of before; 0 where it is new. */
  begin(event: EventMessage, seq: number): number {
    this.#begun = true;
    this.#known = this.#find(fieldsOf(event, { seq, atMs: 0 }));
    if (this.#known) this.#goOn(this.#known);
    else for (const parts of [this.#audit, this.#events]) parts.close();
    return this.#known?.atMs ?? 0;
  }

  add(event: EventMessage, place: EventPlace): void {
    if (!this.#begun) this.begin(event, place.seq);
    const isThere = this.#known !== null;
    this.#known = null;
    if (isThere) return;
    const fields = fieldsOf(event, place);
    this.#append("events", this.#events, fields);
    if (event.kind.startsWith("command.")) this.#append("audit", this.#audit, fields);
  }

  #append(name: "events" | "audit", parts: LineParts, fields: EventFields): void {
    // A line that is lost is missing in the sums of all that follow.
    const { text, sum } = eventLine(fields, this.#sums[name]);
    this.#sums[name] = sum;
    parts.append(text);
  }

  #find(fields: EventFields): KnownEvent | null {
    const path = this.#row(this.#events).findLast((part) => (placeOf(firstLine(part) ?? "")?.seq ?? 0) <= fields.seq);
    if (path === undefined) return null;
    for (const { text } of readLines(path)) {
      const place = placeOf(text);
      if ((place?.seq ?? 0) < fields.seq) continue;
      if (!place || untimed(text) !== untimed(eventLine(fields, "").text)) return null;
      return { ...place, path, atMs: (JSON.parse(text) as EventFields).at_ms };
    }
    return null;
  }

  #goOn({ seq, sum }: KnownEvent): void {
    const isLater = (line: string): boolean => (placeOf(line)?.seq ?? 0) > seq;
    this.#sums.events = sum;
    this.#events.cut(isLater, this.#row(this.#events));
    const lines = this.#row(this.#audit);
    const first = lines[0] === undefined ? null : firstLine(lines[0]);
    // An earlier version of Muster wrote no places.
    if (first !== null && placeOf(first) === null) this.#audit.close();
    else this.#audit.cut(isLater, lines);
    for (const part of this.#row(this.#audit))
      for (const { text } of readLines(part)) this.#sums.audit = placeOf(text)?.sum ?? "";
  }

  /** Parts of what the present store of the broker told. */
  #row(parts: LineParts): readonly string[] {
    const { paths } = parts;
    return paths.slice(lastRow({ path: this.#directory, events: paths.map((path) => basename(path)) }));
  }
}

function fieldsOf({ kind, from, term, body, sentAtMs }: EventMessage, { seq, atMs }: EventPlace): EventFields {
  return { seq, at: new Date(sentAtMs).toISOString(), from, term, kind, body, at_ms: Math.round(atMs) };
}

/** A line as far as it is compared: without its time since the beginning of a run, and its sum. */
const untimed = (text: string): string =>
  text.replace(/,"at_ms":-?\d+(,"sum":"[0-9a-f]+")?\}$/, "").slice(0, comparedMax);
