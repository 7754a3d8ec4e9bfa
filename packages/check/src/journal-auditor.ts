/** The checkers over one journal and nothing else: for real runs, of which nobody saw anything but what they left behind. */
import {
  decodeSnapshot,
  type ForeignRecords,
  type JournalRecord,
  PartCollector,
  RecordChain,
  type SnapshotPart,
} from "@muster/actors/controller";
import { messageOf } from "@muster/base";
import type { ControllerEvent, ControllerState, Rules } from "@muster/machines/controller";
import { digestsOf, type JobConfig, type Role, type Section } from "@muster/protocol";
import { type Decision, JournalModel, type WholeSnapshot } from "./journal-model.ts";
import { Judge, type Violation } from "./judge.ts";
import { MembershipChecker } from "./membership-checker.ts";
import type { Observed } from "./observed.ts";
import { WeightsChecker } from "./weights-checker.ts";

/** What the journal says. */
export interface JournalAudit extends JournalCoverage {
  readonly terms: number;
  readonly commits: number;
  readonly violations: readonly Violation[];
  /** True when in every committed step all votes had one digest, and nobody ever said to hold a version with another. */
  readonly replicasBitwiseEqual: boolean;
}

/** What of the journal was looked at. */
export interface JournalCoverage {
  /** Records of controllers. */
  readonly records: number;
  /** First record that was there; 0 when there is none. */
  readonly firstSeq: number;
  /** Records whose inputs were followed: the others stand before the first snapshot, or were decided by other rules. */
  readonly folded: number;
  /** Rules of the first records that were decided by others than the given ones. */
  readonly otherRules: Partial<Rules> | null;
  readonly foreign: ForeignRecords;
}

/** How to audit. */
export interface JournalAuditOptions {
  /** The beginning may be gone: then what follows a whole snapshot is judged. Otherwise that is a violation. */
  readonly mayBeginLate?: boolean;
  /** Rules of this program: what was decided by others is not followed. Without them everything is. */
  readonly rules?: Rules;
  /** Hears of each commit that it comes to. */
  readonly onCommit?: (weights: NonNullable<ControllerState["weights"]>, step: number) => void;
}

/** Feeds the checkers with what a journal holds. */
export class JournalAuditor {
  /** The record that comes next. */
  nextSeq = 1;
  readonly #options: JournalAuditOptions;
  /** What the audit itself could not do; nothing is judged after it. */
  #failure: string | null = null;
  readonly #time = { nowMs: 0 };
  readonly #judge = new Judge(this.#time);
  readonly #weights: WeightsChecker;
  readonly #members = new MembershipChecker(this.#judge, Number.POSITIVE_INFINITY);
  readonly #journal: JournalModel;
  readonly #chain = new RecordChain();
  readonly #parts = new PartCollector();
  readonly #terms = new Map<number, Observed>();
  readonly #votes = new Map<string, Set<string>>();
  /** False while nothing is known that the next record could be applied to. */
  #isFolding = true;
  /** The newest whole snapshot, as long as no inputs came after it. */
  #fresh: WholeSnapshot | null = null;
  #firstSeq = 0;
  #records = 0;
  #folded = 0;
  #commits = 0;
  #otherRules: Partial<Rules> | null = null;
  #isEqual = true;

  constructor(config: JobConfig, options: JournalAuditOptions = {}) {
    this.#options = options;
    this.#weights = new WeightsChecker(this.#judge);
    this.#journal = new JournalModel(this.#judge, config, { onDecision: (decision) => this.#decided(decision) });
  }

  /** What was found so far. */
  get violations(): readonly Violation[] {
    return this.#judge.violations;
  }

  /** Takes the next record. One that was taken before counts for nothing, one that is missing ends the audit. */
  take(seq: number, data: Uint8Array): void {
    if (seq < this.nextSeq || this.#failure !== null) return;
    if (seq > this.nextSeq && this.#firstSeq === 0 && this.#options.mayBeginLate) this.#isFolding = false;
    else if (seq > this.nextSeq) {
      this.#failure = `records ${this.nextSeq} to ${seq - 1} of the journal were removed before they were read`;
      return;
    }
    this.#firstSeq ||= seq;
    this.nextSeq = seq + 1;
    try {
      const record = this.#chain.take(seq, data);
      if (record) this.#record(seq, data, record);
      else if (this.#isFolding) this.#journal.passed(seq);
    } catch (error) {
      this.#failure = messageOf(error);
    }
  }

  #record(seq: number, data: Uint8Array, { term, events, part }: JournalRecord): void {
    const by = this.#terms.get(term) ?? lifeOf(`controller of term ${term}`, "controller");
    this.#terms.set(term, by);
    this.#records += 1;
    this.#time.nowMs = events[0]?.atMs ?? this.#time.nowMs;
    if (!part) this.#begins(seq, events);
    if (this.#isFolding) {
      for (const event of events)
        if (event.type === "replica.register") this.#live(event.from, event.role, event.incarnation);
      this.#journal.stored({ seq, data, by });
      this.#folded += 1;
    }
    if (part) this.#written(seq, term, part);
    else this.#fresh = null;
  }

  /** Inputs come: they are followed when they were decided by the rules that are given, and it is known what came before. */
  #begins(seq: number, events: readonly ControllerEvent[]): void {
    const elected = events.find((event) => event.type === "controller.elected");
    if (!elected) return;
    if (!this.#isOwn(elected.rules)) {
      this.#otherRules ??= elected.rules ?? {};
      this.#isFolding = false;
    } else if (!this.#isFolding && this.#fresh) this.#restore(seq - 1, this.#fresh);
  }

  /** A part of a snapshot: the whole stands for what is not there, or was not followed. */
  #written(seq: number, term: number, part: SnapshotPart): void {
    const bytes = this.#parts.take(seq, part);
    if (!bytes) return;
    const content = decodeSnapshot(part.firstSeq, bytes);
    this.#fresh = { firstSeq: part.firstSeq, term, content };
    if (!this.#isFolding && this.#isOwn(content.rules)) this.#restore(seq, this.#fresh);
  }

  #isOwn(found: Rules | undefined): boolean {
    const { rules } = this.#options;
    return rules === undefined || rules.digest === found?.digest;
  }

  #restore(seq: number, snapshot: WholeSnapshot): void {
    this.#isFolding = true;
    this.#journal.restore(seq, snapshot);
    const { members, waiting, step, weights } = snapshot.content.state;
    for (const { id, role, incarnation } of Object.values(members)) this.#live(id, role, incarnation);
    for (const [id, { incarnation }] of Object.entries(waiting)) this.#live(id, "policy", incarnation);
    for (const { vote, sections } of Object.values(step.votes))
      if (vote === "commit") this.#voted(`${weights?.lineage}/${step.step}/${step.attempt}`, sections);
  }

  #live(id: string, role: Role, incarnation: string): void {
    this.#members.identified({ job: "", id, role, incarnation }, lifeOf(incarnation, role));
  }

  #voted(key: string, sections: readonly Section[]): void {
    const digests = this.#votes.get(key) ?? new Set<string>();
    this.#votes.set(key, digests.add(digestsOf(sections)));
  }

  audit(): JournalAudit {
    const [detail, { nowMs: atMs }] = [this.#failure, this.#time];
    const failed = detail === null ? [] : [{ invariant: "audit", detail, atMs }];
    const violations = [...this.#judge.violations, ...failed];
    return {
      records: this.#records,
      firstSeq: this.#firstSeq,
      folded: this.#folded,
      otherRules: this.#otherRules,
      foreign: this.#chain.foreign,
      terms: this.#terms.size,
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
      const { step, attempt, sections } = event.body;
      this.#voted(`${before.weights?.lineage}/${step}/${attempt}`, sections);
    }
    if (!after.weights || !before.weights || after.weights.version <= before.weights.version) return;
    this.#commits += 1;
    const key = `${before.weights.lineage}/${before.step.step}/${before.step.attempt}`;
    if ((this.#votes.get(key)?.size ?? 0) !== 1) this.#isEqual = false;
    this.#votes.clear();
    this.#options.onCommit?.(after.weights, before.step.step);
  }
}

/** What the audit asks of a controller's state. */
interface AuditState extends Pick<Decision["before"], "dropped"> {
  readonly members: Readonly<Record<string, { readonly incarnation: string }>>;
}

/**
 * What a replica says to hold, when the controller took it for news. A report that the broker delivers again to the next controller says
 * nothing of what the replica holds now: after newer ones it is dropped there, after the replica's end it is a stranger's. Pure.
 */
export function heldOf({ event, before, after }: Pick<Decision, "event"> & Record<"before" | "after", AuditState>) {
  if (event.type !== "weights.held") return null;
  const isMember = before.members[event.from]?.incarnation === event.incarnation;
  return isMember && after.dropped.stale === before.dropped.stale ? event : null;
}

function lifeOf(name: string, role: string): Observed {
  return { name, node: name, role, isDead: false };
}
