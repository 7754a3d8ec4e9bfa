/**
 * What a job says of itself in public must fit together (S2, S6, S8, S15, S16, S18, S22, S24, S25, L2): every step once, from one version to the next,
 * every group trained, given up, or neither, and a ledger that says the same. Needs a few thousand steps of memory, however long the job is.
 */
import {
  type AnyMessage,
  type Body,
  type ChangedSettings,
  groupsAt,
  type JobConfig,
  type KindOf,
  type Ledger,
  type Section,
  settingsAt,
  spansOf,
} from "@muster/protocol";
import { Judge, type Verdicts, type Violation } from "./judge.ts";

type EventMessage = Extract<AnyMessage, { kind: KindOf<"event"> }>;
type FactOf<E> = E extends EventMessage ? Pick<E, "kind" | "body" | "term"> : never;

/** A public fact, as the controller said it. */
export type PublicFact = FactOf<EventMessage>;

/** What a job must keep to. */
export type FactRules = Pick<JobConfig, "batch" | "seed" | "stalenessMax">;

/** The job after one of its steps. */
interface Settled {
  /** Not known before the first commit. */
  readonly version: number | null;
  /** Trajectories that the ledger has as trained or aborted. */
  readonly settled: number;
}

interface Head {
  readonly step: number;
  readonly lineage: number;
  readonly version: number | null;
  readonly sections: readonly Section[] | null;
}

/** Steps, groups and lives that are remembered. A job that goes back further is not judged for that. */
const stepsMax = 65_536;
const namesMax = 100_000;

/** Looks at the public facts of one job in their order, each once. */
export class FactChecker {
  readonly #verdicts: Verdicts;
  readonly #rules: FactRules;
  /** The last step that ended; `null` where it is not known. */
  #head: Head | null;
  /** By step, of the line that stands. */
  readonly #steps = new Map<number, Settled>();
  /** Groups that were given up: `<step>.<index>`. */
  readonly #givenUp = new Set<string>();
  /** Facts are missing, and no step was committed since. */
  #isUnsure: boolean;
  /** Groups of earlier steps may have been given up by facts that are missing. */
  #firstSure = 0;
  /** Lives that are over. */
  readonly #gone = new Set<string>();
  #term = 0;
  #epoch = 0;
  /** The job has said that it goes back: the next step may be any that was there. */
  #mayGoBack = false;
  /** What operators changed. */
  #changes: readonly ChangedSettings[] = [];
  /** Facts that told of changes may be missing. */
  #areChangesKnown = true;
  /** Steps on older samples than the configuration allows, where a change may have allowed them. */
  stale = 0;
  /** The store was lost: terms and epochs begin anew, and lineages after the checkpoint's. */
  #isReset = false;

  /** @param isWhole - The facts begin with the job's first one. */
  constructor(verdicts: Verdicts, rules: FactRules, isWhole = true) {
    this.#verdicts = verdicts;
    this.#rules = rules;
    this.#head = isWhole ? { step: 0, lineage: 0, version: null, sections: null } : null;
    this.#isUnsure = !isWhole;
    if (isWhole) this.#steps.set(0, { version: null, settled: 0 });
  }

  /** The last step that ended, as far as it is known. */
  get step(): number | null {
    return this.#head?.step ?? null;
  }

  /** Facts are missing here: what follows is not held against what was before. */
  cut(): void {
    this.#head = null;
    this.#steps.clear();
    this.#isUnsure = true;
  }

  /** What was changed until here, where facts are missing; `null` when nobody knows. */
  changed(changes: readonly ChangedSettings[] | null): void {
    this.#areChangesKnown = changes !== null;
    if (changes) this.#changes = [...changes];
  }

  /** Takes the next fact. */
  take(fact: PublicFact): void {
    switch (fact.kind) {
      case "job.started":
        this.#started(fact.body);
        break;
      case "job.changed":
        this.#changes = [...this.#changes, fact.body];
        break;
      case "alarm.raised":
        this.#alarmed(fact.body.alarm);
        break;
      case "groups.quarantined":
        remember(this.#givenUp, fact.body.item);
        break;
      case "step.partial":
        for (const index of fact.body.missing) remember(this.#givenUp, `${fact.body.step}.${index}`);
        break;
      case "step.committed":
        this.#committed(fact.body);
        break;
      case "step.skipped":
        this.#skipped(fact.body);
        break;
      case "checkpoint.kept":
        this.#kept(fact.body);
        break;
      case "mesh.changed":
        this.#meshed(fact.body.epoch);
        break;
      case "member.joined":
        this.#joined(fact.body);
        break;
      case "member.left":
      case "member.died":
        remember(this.#gone, fact.body.incarnation);
        break;
      case "job.ended":
        this.#ended(fact.body);
        break;
    }
  }

  #started({ term, seed }: Body<"job.started">): void {
    this.#require(term > this.#term, "S2", () => `a controller of term ${term} begins after one of term ${this.#term}`);
    this.#require(
      seed === this.#rules.seed,
      "S33",
      () => `the job has seed ${seed}, its configuration ${this.#rules.seed}`,
    );
    this.#term = Math.max(term, this.#term);
  }

  #alarmed(alarm: string): void {
    const isNewJournal = alarm === "store-lost" || alarm === "prolonged";
    if (alarm === "rollback" || isNewJournal) this.#mayGoBack = true;
    if (!isNewJournal) return;
    this.#isReset = true;
    this.#term = 0;
    this.#epoch = 0;
  }

  #committed(body: Body<"step.committed">): void {
    const { step, lineage, version, sections, staleness, ledger } = body;
    const settled = ledger.trained + ledger.aborted;
    if (!this.#follows(step, lineage)) return;
    this.#checkGroups(body);
    this.#checkBase(body, settled);
    this.#checkLedger(ledger, `step ${step}`);
    this.#checkStaleness(step, staleness);
    this.#advance({ step, lineage, version, sections }, settled);
  }

  #checkStaleness(step: number, staleness: number): void {
    const allowed = this.#stalenessAt(step);
    const isStale = staleness > allowed;
    if (isStale && !this.#areChangesKnown) {
      this.stale += 1;
      return;
    }
    this.#require(
      !isStale,
      "S18",
      () => `step ${step} trained on what is ${staleness} versions old, ${allowed} are allowed`,
    );
  }

  #stalenessAt(step: number): number {
    return settingsAt(this.#changes, step).stalenessMax ?? this.#rules.stalenessMax;
  }

  #stalenessMost(): number {
    return Math.max(this.#rules.stalenessMax, ...this.#changes.map(({ settings }) => settings.stalenessMax ?? 0));
  }

  #skipped({ step, version }: Body<"step.skipped">): void {
    if (!this.#follows(step, null)) return;
    const base = this.#steps.get(step - 1);
    this.#require(
      base === undefined || base.version === null || base.version === version,
      "S22",
      () => `step ${step} is skipped at version ${version}, the one before it ended with version ${base?.version}`,
    );
    const { lineage = 0, sections = null } = this.#head ?? {};
    if (base) this.#advance({ step, lineage, version: base.version, sections }, base.settled);
    else this.cut();
  }

  /** The step is the next one, or one to which the job has gone back. @returns False when the rest of it can not be judged. */
  #follows(step: number, lineage: number | null): boolean {
    const head = this.#head;
    if (!head) return true;
    const isForward = lineage === null || lineage >= head.lineage || this.#isReset;
    this.#require(isForward, "S24", () => `step ${step} ends in lineage ${lineage}, after lineage ${head.lineage}`);
    const mayGoBack = this.#mayGoBack || (lineage !== null && lineage > head.lineage);
    const isNew = step > head.step || mayGoBack;
    this.#require(
      isNew,
      "S16",
      () =>
        `step ${step} ends a second time in lineage ${head.lineage}, after step ${head.step}: its groups are trained twice`,
    );
    this.#require(
      step <= head.step + 1,
      "S15",
      () => `step ${step} follows step ${head.step}: nothing says what became of ${stepsText(head.step + 1, step - 1)}`,
    );
    return isForward && isNew;
  }

  /** Every group of the step is trained once, or was given up. */
  #checkGroups({ step, groups }: Body<"step.committed">): void {
    const groupsPerStep = groupsAt(spansOf(this.#rules.batch.groupsPerStep, this.#changes), step);
    const isSizeKnown = this.#areChangesKnown;
    const seen = new Set<string>();
    for (const group of groups) {
      const [of, index] = group.split(".").map(Number);
      this.#require(!seen.has(group), "S16", () => `group ${group} is trained twice in step ${step}`);
      this.#require(
        of === step && index !== undefined && (index < groupsPerStep || !isSizeKnown),
        "S16",
        () => `group ${group} is trained in step ${step}, to which it does not belong`,
      );
      seen.add(group);
    }
    if (this.#isUnsure) this.#firstSure = step + this.#stalenessMost() + 1;
    this.#isUnsure = false;
    if (!this.#head || step < this.#firstSure || !isSizeKnown) return;
    const wanted = Array.from({ length: groupsPerStep }, (_, index) => `${step}.${index}`);
    const lost = wanted.filter((group) => !seen.has(group) && !this.#givenUp.has(group));
    this.#require(
      lost.length === 0,
      "S15",
      () => `step ${step} is committed without ${lost.join(", ")}, and nothing says that they were given up`,
    );
  }

  /** A step makes the next version of the one before it, and the ledger has what it trained. */
  #checkBase({ step, version, groups }: Body<"step.committed">, settled: number): void {
    const base = this.#steps.get(step - 1);
    if (!base) return;
    this.#require(
      base.version === null || version === base.version + 1,
      "S22",
      () => `step ${step} makes version ${version}, the step before it ended with version ${base.version}`,
    );
    const added = settled - base.settled;
    const wanted = groups.length * this.#rules.batch.groupSize;
    this.#require(
      added === wanted,
      "S15",
      () => `with step ${step} the ledger has ${added} trajectories more, its ${groups.length} groups have ${wanted}`,
    );
  }

  #checkLedger({ admitted, trained, aborted, quarantined, pending }: Ledger, what: string): void {
    const imbalance = admitted - trained - aborted - quarantined - pending;
    this.#require(imbalance === 0, "S15", () => `at ${what} the ledger is off by ${imbalance} trajectories`);
  }

  #advance(head: Head, settled: number): void {
    this.#head = head;
    this.#mayGoBack = false;
    this.#isReset = false;
    this.#steps.delete(head.step);
    this.#steps.set(head.step, { version: head.version, settled });
    const [oldest] = this.#steps.keys();
    if (this.#steps.size > stepsMax && oldest !== undefined) this.#steps.delete(oldest);
  }

  #kept({ step, version }: Body<"checkpoint.kept">): void {
    const known = this.#steps.get(step);
    this.#require(
      !known || known.version === null || known.version === version,
      "S25",
      () => `the checkpoint of step ${step} is of version ${version}, the step ended with version ${known?.version}`,
    );
  }

  #meshed(epoch: number): void {
    this.#require(epoch > this.#epoch, "S6", () => `the mesh has epoch ${epoch} after epoch ${this.#epoch}`);
    this.#epoch = Math.max(epoch, this.#epoch);
  }

  #joined({ id, incarnation }: Body<"member.joined">): void {
    this.#require(!this.#gone.has(incarnation), "S8", () => `${id} joins as ${incarnation}, which was out for good`);
  }

  #ended({ outcome, step, version, lineage, sections, ledger }: Body<"job.ended">): void {
    this.#checkLedger(ledger, "the end");
    this.#require(
      outcome !== "done" || ledger.pending === 0,
      "L2",
      () => `the job is done, and ${ledger.pending} trajectories are pending`,
    );
    const head = this.#head;
    if (!head || this.#mayGoBack) return;
    const isLast = step === head.step && (head.version === null || version === head.version);
    this.#require(
      isLast,
      "S22",
      () =>
        `the job ends with step ${step}, version ${version}; the last step was ${head.step}, version ${head.version}`,
    );
    const isSame =
      !isLast || lineage !== head.lineage || !head.sections || digestsOf(sections) === digestsOf(head.sections);
    this.#require(
      isSame,
      "S10",
      () => `the job ends with ${digestsOf(sections)}; step ${step} was committed as ${digestsOf(head.sections ?? [])}`,
    );
  }

  #require(holds: boolean, invariant: string, detail: () => string): void {
    this.#verdicts.require(holds, invariant, detail);
  }
}

/** Digests of weights, as text. */
export function digestsOf(sections: readonly Section[]): string {
  return sections.map(({ name, digest }) => `${name} ${digest}`).join(", ") || "no digest";
}

function stepsText(first: number, last: number): string {
  return first === last ? `step ${first}` : `steps ${first} to ${last}`;
}

/** Adds a name; the oldest goes when there are too many. */
function remember(names: Set<string>, name: string): void {
  names.add(name);
  const [oldest] = names;
  if (names.size > namesMax && oldest !== undefined) names.delete(oldest);
}

/** Judges all public facts of a job, each once and in their order, at the times at which they were heard. */
export function auditFacts(
  rules: FactRules,
  facts: Iterable<PublicFact & { readonly atMs: number }>,
): readonly Violation[] {
  const time = { nowMs: 0 };
  const judge = new Judge(time);
  const checker = new FactChecker(judge, rules);
  for (const fact of facts) {
    time.nowMs = fact.atMs;
    checker.take(fact);
  }
  return judge.violations;
}
