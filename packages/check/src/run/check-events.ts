/** The events of a run: each line as it was written, each event once, and what they say of the job. */
import { join } from "node:path";
import { FactChecker, type PublicFact } from "../fact-checker.ts";
import { readChanges } from "./changes.ts";
import { type ReadLine, readEventLine } from "./event-line.ts";
import type { Findings } from "./findings.ts";
import { type FileLine, linesOf, type ReadingOptions } from "./lines.ts";
import { partName } from "./parts.ts";
import { beginsRowIn, lastRow, type RunFolder } from "./run-folder.ts";

/** What is to be done with the events beside what checks them. */
export interface EventsOptions extends ReadingOptions {
  readonly findings: Findings;
  /** Hears of each fact; `isLast` in the last row: what the present store of the broker has, and what it had. */
  readonly onFact: (fact: PublicFact, isLast: boolean) => void;
}

/** What the events come to. */
export interface EventsResult {
  readonly events: number;
  readonly commits: number;
  /** Controllers that began to act. */
  readonly terms: number;
  /** True when nothing is known to lack from the first event on. */
  readonly isWhole: boolean;
}

/** Where one file stands. */
interface FileState {
  readonly name: string;
  readonly isFirst: boolean;
  readonly isLast: boolean;
  /** True where what was before it in its row is gone. */
  readonly isCutOff: boolean;
  /** Sum of the line before; `null` after one that could not be read, or that is gone. */
  sum: string | null;
  /** Last event; 0 before the first. */
  seq: number;
  /** Events up to here stand in the file before, too. */
  knownSeq: number;
  lines: number;
}

/** Checks the events of a run. */
export async function checkEvents(folder: RunFolder, options: EventsOptions): Promise<EventsResult> {
  const check = new EventsCheck(folder, options);
  const from = lastRow(folder);
  for (const [index, name] of folder.events.entries()) await check.file(name, index, index >= from);
  check.conclude();
  const { events, commits, terms, isWhole } = check;
  return { events, commits, terms, isWhole };
}

class EventsCheck {
  events = 0;
  commits = 0;
  terms = 0;
  isWhole = true;
  readonly #folder: RunFolder;
  readonly #options: EventsOptions;
  readonly #facts: FactChecker;
  /** Events were lost since the last one that was taken. */
  #isLost = false;
  /** The file before. */
  #last: FileState | null = null;
  /** Places in files without sums where events lack, or were said twice. */
  #gaps = 0;
  #unknown = new Map<string, number>();

  constructor(folder: RunFolder, options: EventsOptions) {
    this.#folder = folder;
    this.#options = options;
    this.#facts = new FactChecker(options.findings, folder.config);
  }

  async file(name: string, index: number, isLast: boolean): Promise<void> {
    const path = join(this.#folder.path, name);
    const isNewRow = beginsRowIn(path);
    const before = this.#last;
    const isCutOff = !isNewRow && before === null && name !== partName("events");
    const fresh = { isFirst: index === 0, isCutOff, sum: isCutOff ? null : "", seq: 0, knownSeq: 0 };
    const state: FileState = { ...((!isNewRow && before) || fresh), name, isLast, lines: 0 };
    for await (const line of linesOf(path, this.#options)) this.#line(state, line);
    this.#last = state;
  }

  conclude(): void {
    const { findings } = this.#options;
    if (this.#gaps > 0)
      findings.skip(
        "lost lines of events",
        `lines without sums, of an earlier version of Muster, do not tell them from facts that were said twice: ${this.#gaps} gaps`,
      );
    if (this.#facts.stale > 0)
      findings.skip(
        `the age of what ${this.#facts.stale} steps were trained on`,
        "it is above that of the configuration, events are gone that may have raised it, and there is no changes.jsonl",
      );
    for (const [kind, count] of this.#unknown)
      findings.skip(`${count} events of kind ${kind}`, "this version of Muster does not know them");
  }

  #line(state: FileState, line: FileLine): void {
    const { findings } = this.#options;
    state.lines = line.number;
    findings.at({ file: state.name, line: line.number });
    const read = line.text === null ? "it is longer than any event" : readEventLine(line.text, state.sum ?? "");
    if (typeof read !== "string") {
      this.#event(state, read);
      return;
    }
    if (!line.isEnded) {
      findings.notes.push(`${state.name} ends in the middle of line ${line.number}: its writer was interrupted there`);
      return;
    }
    findings.add("file", `this line is no event: ${read}`);
    state.sum = null;
    this.#cut();
  }

  #event(state: FileState, line: ReadLine): void {
    const { findings } = this.#options;
    findings.at({ file: state.name, line: state.lines, seq: line.seq });
    if (state.seq === 0) this.#begins(state, line.seq);
    else if (line.seq <= state.seq) {
      const how = line.seq === state.seq ? "a second time" : `after event ${state.seq}`;
      findings.add("file", `event ${line.seq} stands here ${how}`);
      return;
    }
    this.#checkOrder(state, line);
    state.seq = line.seq;
    state.sum = line.sum;
    this.#take(state, line);
  }

  /** The first line of a file. */
  #begins(state: FileState, seq: number): void {
    const { findings } = this.#options;
    // A broker whose store was lost counts anew.
    state.knownSeq = state.isFirst || seq === 1 ? 0 : (this.#last?.seq ?? 0);
    if (seq <= state.knownSeq + 1) return;
    const missing = state.knownSeq + 1 === seq - 1 ? `event ${seq - 1}` : `events ${state.knownSeq + 1} to ${seq - 1}`;
    const why = state.isCutOff
      ? `they were dropped: a run keeps its newest events (--history of muster run), and ${state.name} begins with event ${seq}`
      : `no file has them: the broker did not keep them until ${state.name} was begun`;
    findings.skip(missing, why);
    this.#cut();
  }

  /** Nothing lacks between this line and the one before, and neither was changed. */
  #checkOrder(state: FileState, { seq, isInOrder, sum }: ReadLine): void {
    const { findings } = this.#options;
    const last = state.seq;
    const gap = last > 0 && seq > last + 1;
    if (sum === null) this.#gaps += gap ? 1 : 0;
    if (isInOrder || sum === null || state.sum === null) return;
    const first = last + 1;
    if (gap) {
      findings.add(
        "file",
        `${first === seq - 1 ? `event ${first} is` : `events ${first} to ${seq - 1} are`} missing before this line: it does not follow the one of event ${last}`,
      );
      this.#cut();
    } else
      findings.add(
        "file",
        last > 0
          ? `this line is not what was written after event ${last}: one of the two was changed`
          : "this line is not the first one of the file, or was changed",
      );
  }

  #take(state: FileState, { fact, kind, seq, at }: ReadLine): void {
    const isNew = seq > state.knownSeq;
    if (isNew) this.events += 1;
    if (!fact) {
      this.#unknown.set(kind, (this.#unknown.get(kind) ?? 0) + 1);
      return;
    }
    this.#options.onFact(fact, state.isLast);
    if (!isNew) return;
    if (this.#isLost) this.#facts.changed(readChanges(this.#folder.path)?.filter((change) => change.at < at) ?? null);
    this.#isLost = false;
    if (fact.kind === "step.committed") this.commits += 1;
    if (fact.kind === "job.started") this.terms += 1;
    this.#facts.take(fact);
  }

  #cut(): void {
    this.isWhole = false;
    this.#isLost = true;
    this.#facts.cut();
  }
}
