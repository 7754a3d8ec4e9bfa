/** The checkers over one journal and nothing else: for real runs, of which nobody saw anything but what they left behind. */
import { decodeRecord } from "@muster/actors";
import { messageOf } from "@muster/base";
import type { JobConfig } from "@muster/protocol";
import { type Decision, JournalModel } from "./journal-model.ts";
import { Judge, type Violation } from "./judge.ts";
import { MembershipChecker } from "./membership-checker.ts";
import type { Observed } from "./observed.ts";
import { WeightsChecker } from "./weights-checker.ts";

/** What the journal says. */
export interface JournalAudit {
  readonly records: number;
  readonly terms: number;
  readonly commits: number;
  readonly violations: readonly Violation[];
  /** True when in every committed step all votes had one digest, and nobody ever said to hold a version with another. */
  readonly replicasBitwiseEqual: boolean;
}

/** Feeds the checkers with what a journal holds. */
export class JournalAuditor {
  /** The record that comes next. */
  nextSeq = 1;
  /** What the audit itself could not do; nothing is judged after it. */
  #failure: string | null = null;
  readonly #time = { nowMs: 0 };
  readonly #judge = new Judge(this.#time);
  readonly #weights: WeightsChecker;
  readonly #members = new MembershipChecker(this.#judge, Number.POSITIVE_INFINITY);
  readonly #journal: JournalModel;
  readonly #reigns = new Map<number, Observed>();
  readonly #votes = new Map<string, Set<string>>();
  #records = 0;
  #commits = 0;
  #isEqual = true;

  constructor(config: JobConfig) {
    this.#weights = new WeightsChecker(this.#judge);
    this.#journal = new JournalModel(this.#judge, config, {
      logic: undefined,
      onDecision: (decision) => this.#decided(decision),
    });
  }

  /** Takes the next record. One that was taken before counts for nothing, one that is missing ends the audit. */
  take(seq: number, data: Uint8Array): void {
    if (seq < this.nextSeq || this.#failure !== null) return;
    if (seq > this.nextSeq) {
      this.#failure = `records ${this.nextSeq} to ${seq - 1} of the journal were removed before they were read`;
      return;
    }
    this.nextSeq = seq + 1;
    try {
      this.#record(seq, data);
    } catch (error) {
      this.#failure = messageOf(error);
    }
  }

  #record(seq: number, data: Uint8Array): void {
    const { term, events } = decodeRecord(seq, data);
    const by = this.#reigns.get(term) ?? lifeOf(`controller of term ${term}`, "controller");
    this.#reigns.set(term, by);
    this.#time.nowMs = events[0]?.atMs ?? this.#time.nowMs;
    for (const event of events) {
      if (event.type === "replica.register")
        this.#members.identified(
          { job: "", id: event.from, role: event.role, incarnation: event.incarnation },
          lifeOf(event.incarnation, event.role),
        );
    }
    this.#journal.stored({ seq, data, by });
    this.#records += 1;
  }

  audit(): JournalAudit {
    const [detail, { nowMs: atMs }] = [this.#failure, this.#time];
    const failed = detail === null ? [] : [{ invariant: "audit", detail, atMs }];
    const violations = [...this.#judge.violations, ...failed];
    return {
      records: this.#records,
      terms: this.#reigns.size,
      commits: this.#commits,
      violations,
      replicasBitwiseEqual: this.#isEqual && !violations.some(({ invariant }) => invariant === "S10"),
    };
  }

  #decided(decision: Decision): void {
    const held = heldOf(decision);
    if (held) this.#weights.held(held.body, held.incarnation);
    this.#weights.decided(decision);
    this.#members.decided(decision);
    const { event, before, after } = decision;
    if (event.type === "step.voted" && event.body.vote === "commit") {
      const key = `${before.weights?.lineage}/${event.body.step}/${event.body.attempt}`;
      const digests = this.#votes.get(key) ?? new Set<string>();
      this.#votes.set(key, digests.add(JSON.stringify(event.body.sections)));
    }
    if (!after.weights || !before.weights || after.weights.version <= before.weights.version) return;
    this.#commits += 1;
    const key = `${before.weights.lineage}/${before.step.step}/${before.step.attempt}`;
    if ((this.#votes.get(key)?.size ?? 0) !== 1) this.#isEqual = false;
  }
}

/** What the audit asks of a controller's state. */
interface Seen extends Pick<Decision["before"], "dropped"> {
  readonly members: Readonly<Record<string, { readonly incarnation: string }>>;
}

/**
 * What a replica says to hold, when the controller took it for news. A report that the broker delivers again to the next controller says
 * nothing of what the replica holds now: after newer ones it is dropped there, after the replica's end it is a stranger's. Pure.
 */
export function heldOf({ event, before, after }: Pick<Decision, "event"> & Record<"before" | "after", Seen>) {
  if (event.type !== "weights.held") return null;
  const isMember = before.members[event.from]?.incarnation === event.incarnation;
  return isMember && after.dropped.stale === before.dropped.stale ? event : null;
}

function lifeOf(name: string, role: string): Observed {
  return { name, node: name, role, isDead: false };
}
