/** The public events of a job in the folder of its run: all in `events.jsonl`, commands of operators also in `audit.jsonl`. */
import { appendFileSync, closeSync, existsSync, openSync, readSync, renameSync } from "node:fs";
import { join } from "node:path";
import { eventLine } from "@muster/check";
import type { EventMessage } from "@muster/client";
import type { RunDirectory } from "./run-directory.ts";

/** When an event was said is near the beginning of its line: enough to tell one first event from another. */
const comparedMax = 1024;
/** Events last: while they lie where they were, a run that was killed in between puts the rest aside, too. */
const names = ["audit", "events"] as const;

/** Where an event stands in the stream, and when it was said by the time of the job. */
interface EventPlace {
  readonly seq: number;
  readonly atMs: number;
}

/**
 * Writes the events of a job as the broker has them. When a job goes on, they come from the first one again, and the files are written anew; unless
 * the broker begins with another event, because its store was lost or what it had grew old. Then the earlier files stay, as `events.1.jsonl` and
 * `audit.1.jsonl`, and so on. Nothing is touched before an event has come.
 */
export class EventFiles {
  readonly #directory: RunDirectory;
  #begun = false;
  /** Of the last line. */
  #sum = "";

  constructor(directory: RunDirectory) {
    this.#directory = directory;
  }

  /** The file that has all of them. */
  get path(): string {
    return join(this.#directory.path, "events.jsonl");
  }

  add({ kind, from, term, body, sentAtMs }: EventMessage, { seq, atMs }: EventPlace): void {
    const at = new Date(sentAtMs).toISOString();
    const line = eventLine({ seq, at, from, term, kind, body, at_ms: Math.round(atMs) }, this.#sum);
    if (!this.#begun) this.#begin(line.text);
    // A line that the disk did not take is missing in the sums of all that follow.
    this.#sum = line.sum;
    this.#append("events", line.text);
    if (kind.startsWith("command.")) this.#append("audit", JSON.stringify({ at, kind, body }));
  }

  #append(name: (typeof names)[number], line: string): void {
    appendFileSync(join(this.#directory.path, `${name}.jsonl`), `${line}\n`, { mode: 0o600 });
  }

  #begin(first: string): void {
    this.#begun = true;
    const earlier = beginningOf(join(this.#directory.path, "events.jsonl"));
    if (earlier !== "" && untimed(earlier) !== untimed(first)) this.#keep();
    for (const name of names) this.#directory.write(`${name}.jsonl`, "");
  }

  /** Puts the files of before aside, under the next number. */
  #keep(): void {
    const at = (name: string): string => join(this.#directory.path, `${name}.jsonl`);
    let number = 1;
    while (names.some((name) => existsSync(at(`${name}.${number}`)))) number++;
    for (const name of names) if (existsSync(at(name))) renameSync(at(name), at(`${name}.${number}`));
  }
}

/** The first line as far as it is compared: without its time since the beginning of a run, which is another one for each run, and its sum. */
const untimed = (text: string): string =>
  (text.split("\n", 1)[0] ?? "").replace(/,"at_ms":-?\d+(,"sum":"[0-9a-f]+")?\}$/, "").slice(0, comparedMax);

/** Empty without a file. */
function beginningOf(path: string): string {
  if (!existsSync(path)) return "";
  const file = openSync(path, "r");
  try {
    const buffer = Buffer.alloc(4 * comparedMax);
    return buffer.toString("utf8", 0, readSync(file, buffer));
  } finally {
    closeSync(file);
  }
}
