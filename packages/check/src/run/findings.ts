/** What an audit has found: where, what, and what it means. */
import type { Verdicts } from "../judge.ts";

/** Something that does not hold. Keys are those of the JSON output. */
export interface Finding {
  /** Name of the rule, as the catalogue of the simulator has it. */
  readonly rule: string;
  /** Relative to the folder of the run, where it lies there. */
  readonly file: string;
  readonly line: number | null;
  /** Place in the stream: of an event, or of a record of the journal. */
  readonly seq: number | null;
  readonly says: string;
  readonly means: string;
}

/** What could not be looked at. */
export interface Unchecked {
  readonly what: string;
  readonly why: string;
}

/** Where something was found. */
export interface Place {
  readonly file: string;
  readonly line?: number;
  readonly seq?: number;
}

const altered = "the file was changed, or damaged, after the run wrote it";

/** What it means when a rule does not hold, in words of a job. */
const meanings: Readonly<Record<string, string>> = {
  file: altered,
  S1: "two controllers acted at the same time",
  S2: "a controller went on after another had taken over, or the order of what was written was changed",
  S4: "what was done does not follow from the journal: a record or a snapshot was changed",
  S6: "trainers of an old mesh went on",
  S8: "an evicted replica came back as if nothing had happened",
  S9: "a replica went back to older weights",
  S10: "the same version has different weights in two places: one of them is not what was trained",
  S15: "trajectories are lost, or the ledger does not say what became of them",
  S16: "trajectories were trained twice",
  S18: "the policy was trained on samples that are older than the job allows",
  S22: "a step was committed that does not follow from the one before it and its votes",
  S23: "weights that are not finite were committed",
  S24: "the job went back in a way that it has not announced",
  S25: "a checkpoint is not what the job saved; do not resume or serve from it",
  S26: "the newest durable checkpoint is gone",
  S28: "the job went on from other weights than it had committed",
  S33: "the events are of another job, or of another configuration",
  L2: "the job called itself done with work left",
};

/** More than anybody reads; all are counted. */
const findingsMax = 200;

/** Gathers them; whoever reads a file says where it is. */
export class Findings implements Verdicts {
  readonly list: Finding[] = [];
  readonly unchecked: Unchecked[] = [];
  /** What is unusual and not wrong. */
  readonly notes: string[] = [];
  #count = 0;
  #place: Place = { file: "" };

  /** How many there are, also beyond those of the list. */
  get count(): number {
    return this.#count;
  }

  /** What is judged from now on is found here. */
  at(place: Place): void {
    this.#place = place;
  }

  require(holds: boolean, rule: string, detail: () => string): void {
    if (!holds) this.add(rule, detail());
  }

  /** Something does not hold, at this place. */
  add(rule: string, says: string, place: Place = this.#place): void {
    this.#count += 1;
    if (this.list.length >= findingsMax) return;
    const { file, line = null, seq = null } = place;
    this.list.push({ rule, file, line, seq, says, means: meanings[rule] ?? altered });
  }

  /** Something could not be looked at. */
  skip(what: string, why: string): void {
    this.unchecked.push({ what, why });
  }
}
