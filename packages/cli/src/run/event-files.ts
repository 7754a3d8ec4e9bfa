/** The public events of a job in the folder of its run: all in `events.jsonl`, commands of operators also in `audit.jsonl`, both in parts; changes also in `changes.jsonl`. */
import { basename } from "node:path";
import { changeLine, changesName } from "@muster/check";
import { beginsRow, type EventFields, eventLine, firstLine, lastRow, placeOf, readLines } from "@muster/check/files";
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
 * before stay as they are and others begin; where it is older than all that they have of the present store, that is written anew. Nothing is
 * touched before an event has come.
 */
export class EventFiles {
  readonly #directory: string;
  readonly #events: LineParts;
  readonly #audit: LineParts;
  readonly #changes: LineParts;
  /** Lines of changes that are in their file; `null` where the file would not have all of them. */
  #changed: Set<string> | null = null;
  readonly #sums = { events: "", audit: "" };
  /** The first event that was told, where it is known. */
  #known: KnownEvent | null = null;
  #begun = false;

  constructor(options: GrowingOptions) {
    this.#directory = options.directory;
    this.#events = new LineParts("events", options);
    this.#audit = new LineParts("audit", options);
    this.#changes = new LineParts(changesName, { ...options, bytesMax: Number.POSITIVE_INFINITY });
  }

  /**
   * Hears of the first event before it is added.
   * @returns Its time by the files of before: their last one where they do not have it; 0 where there are none.
   */
  begin(event: EventMessage, seq: number): number {
    this.#begun = true;
    const fields = fieldsOf(event, { seq, atMs: 0 });
    this.#known = this.#find(fields);
    this.#beginChanges(seq);
    if (this.#known) {
      this.#goOn(this.#known);
      return this.#known.atMs;
    }
    const first = this.#firstAfter(fields);
    if (first) {
      this.#events.cut(() => true, this.#eventsRow());
      this.#audit.cut(() => true, this.#auditRow());
      return seq === 1 ? 0 : Math.max(1, first.at_ms - (Date.parse(first.at) - event.sentAtMs));
    }
    const lastMs = this.#lastMs();
    for (const parts of [this.#audit, this.#events]) parts.close();
    return lastMs;
  }

  add(event: EventMessage, place: EventPlace): void {
    if (!this.#begun) this.begin(event, place.seq);
    const isThere = this.#known !== null;
    this.#known = null;
    if (event.kind === "job.changed") this.#change(changeLine(event.body, new Date(event.sentAtMs).toISOString()));
    if (!isThere) this.#write(event, place);
    this.flush();
  }

  /** Writes what a full disk did not take. */
  flush(): void {
    for (const parts of [this.#events, this.#audit, this.#changes]) parts.flush();
  }

  #write(event: EventMessage, place: EventPlace): void {
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

  #change(line: string): void {
    if (this.#changed === null || this.#changed.has(line)) return;
    this.#changed.add(line);
    this.#changes.append(line);
  }

  /** The file is there where it has all changes: from the first event of a job on. */
  #beginChanges(seq: number): void {
    const [first] = this.#events.paths;
    const isFromFirst = seq === 1 && (first === undefined || first === this.#known?.path);
    if (isFromFirst && this.#changes.paths.length === 0) this.#changes.begin();
    if (this.#changes.paths.length === 0) return;
    this.#changes.cut(() => false);
    this.#changed = new Set(this.#changes.paths.flatMap((path) => [...readLines(path)].map(({ text }) => text)));
  }

  /** The first line that is there of the present store, where it was said after an event that is older than all that is there. */
  #firstAfter({ seq, at }: EventFields): EventFields | null {
    for (const path of this.#eventsRow()) {
      const text = firstLine(path);
      if (text === null) continue;
      const first = placeOf(text) ? (JSON.parse(text) as EventFields) : null;
      return first && first.seq > seq && first.at >= at ? first : null;
    }
    return null;
  }

  /** Time of the job at the last line. */
  #lastMs(): number {
    for (const path of [...this.#events.paths].reverse()) {
      let last: string | null = null;
      for (const { text } of readLines(path)) if (placeOf(text)) last = text;
      if (last !== null) return (JSON.parse(last) as Partial<EventFields>).at_ms ?? 0;
    }
    return 0;
  }

  #find(fields: EventFields): KnownEvent | null {
    const path = this.#eventsRow().findLast((part) => {
      const first = firstLine(part);
      return first !== null && (placeOf(first)?.seq ?? 0) <= fields.seq;
    });
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
    this.#events.cut(isLater, this.#eventsRow());
    const lines = this.#auditRow();
    const first = lines[0] === undefined ? null : firstLine(lines[0]);
    // An earlier version of Muster wrote no places.
    if (first !== null && placeOf(first) === null) this.#audit.close();
    else this.#audit.cut(isLater, lines);
    for (const part of this.#auditRow())
      for (const { text } of readLines(part)) this.#sums.audit = placeOf(text)?.sum ?? "";
  }

  /** Parts of what the present store of the broker told. */
  #eventsRow(): readonly string[] {
    const { paths } = this.#events;
    return paths.slice(lastRow({ path: this.#directory, events: paths.map((path) => basename(path)) }));
  }

  /** Those of commands: an empty one begins a row, too, since a store may have none yet. */
  #auditRow(): readonly string[] {
    const { paths } = this.#audit;
    return paths.slice(
      Math.max(
        0,
        paths.findLastIndex((path) => beginsRow(firstLine(path) ?? "")),
      ),
    );
  }
}

function fieldsOf({ kind, from, term, body, sentAtMs }: EventMessage, { seq, atMs }: EventPlace): EventFields {
  return { seq, at: new Date(sentAtMs).toISOString(), from, term, kind, body, at_ms: Math.round(atMs) };
}

/** A line as far as it is compared: without its time since the beginning of a run, and its sum. */
const untimed = (text: string): string =>
  text.replace(/,"at_ms":-?\d+(,"sum":"[0-9a-f]+")?\}$/, "").slice(0, comparedMax);
