/** Training state in the memory of checkpoint actors: losing every policy replica costs no more than the steps since (S24). */
import { type ControllerState, type Member, membersOf } from "@muster/machines/controller";
import type { Section } from "@muster/protocol";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";

/** So often in a row policy replicas may fail before what is kept need not count any more. */
const missesMax = 3;

interface Committed {
  readonly step: number;
  /** The last step that was skipped on it, or the same. */
  readonly lastStep: number;
  readonly digests: string;
}

type VersionOf = NonNullable<ControllerState["weights"]>;

/** The model of memory: who said what of which commit, and lives. */
export class MemoryChecker {
  readonly #judge: Judge;
  /** By `<lineage>.<version>`: the step after which it was committed, or at which its lineage begins. */
  readonly #committed = new Map<string, Committed>();
  /** By life: what it said it holds. */
  readonly #kept = new Map<string, Committed & { readonly key: string }>();
  /** Failures of policy replicas since one of them got weights. */
  #failures = 0;

  constructor(judge: Judge) {
    this.#judge = judge;
  }

  /** A decision was journaled. */
  decided({ before, after, event }: Decision): void {
    if (event.type === "weights.failed" && event.role === "policy") this.#failures++;
    const isBack = before.restore.lineage !== after.restore.lineage;
    if (isBack) this.#rolledBack(before, after);
    const { weights } = after;
    const isMoved = weights !== before.weights || after.step.step > before.step.step;
    if (weights && isMoved) this.#note(weights, after.step.step - 1);
    if (event.type !== "weights.held") return;
    if (event.role === "policy") this.#failures = 0;
    if (event.role !== "checkpoint" || isBack) return;
    // What was not asked for any more need not be remembered.
    const isAsked = before.members[event.from]?.memory?.asked?.version === event.body.version;
    const commit = this.#committed.get(keyOf(event.body));
    const isOfNow = event.body.lineage === after.restore.lineage && after.weights !== null;
    if (isAsked && isOfNow && commit && commit.digests === digestsOf(event.body.sections))
      this.#kept.set(event.incarnation, { ...commit, key: keyOf(event.body) });
  }

  /** A skipped step leaves the weights as they are: a version may stand for several steps. */
  #note(weights: VersionOf, step: number): void {
    const known = this.#committed.get(keyOf(weights));
    this.#committed.set(keyOf(weights), {
      step: known?.step ?? step,
      lastStep: step,
      digests: digestsOf(weights.sections),
    });
  }

  /** The job goes back: to what is in memory when that is the newest, and never to what is not. */
  #rolledBack(before: ControllerState, after: ControllerState): void {
    const { source } = after.restore;
    const step = after.step.step - 1;
    if (source.kind === "memory") {
      const found = this.#committed.get(keyOf(source));
      this.#judge.require(
        found !== undefined && found.step <= step && step <= found.lastStep && step < before.step.step,
        "S24",
        () => `the job goes back to step ${step} from memory, version ${keyOf(source)} is of step ${found?.step}`,
      );
    }
    if (this.#isLoss(before, after)) this.#checkCost(before, after);
    for (const [life, { step: kept }] of this.#kept) if (kept > step) this.#kept.delete(life);
  }

  /** Nobody doubts the weights themselves, and memory could be had. */
  #isLoss(before: ControllerState, after: ControllerState): boolean {
    const isDoubt = before.wentBackAt !== after.wentBackAt;
    return !isDoubt && this.#failures < missesMax;
  }

  #checkCost(before: ControllerState, after: ControllerState): void {
    const step = after.step.step - 1;
    const living = membersOf(after, "checkpoint").filter((member: Member) => member.health !== "suspect");
    for (const { id, incarnation } of living) {
      const kept = this.#kept.get(incarnation);
      this.#judge.require(
        kept === undefined || kept.step <= step || kept.step < (after.checkpoints.saved?.step ?? 0),
        "S24",
        () => `the job goes back to step ${step}, ${id} has step ${kept?.step} in memory`,
      );
      const isCurrent = before.weights !== null && kept?.key === keyOf(before.weights);
      this.#judge.require(!isCurrent, "S24", () => `the job goes back, and ${id} has all of it in memory`);
    }
  }
}

const keyOf = ({ lineage, version }: { readonly lineage: number; readonly version: number }): string =>
  `${lineage}.${version}`;

const digestsOf = (sections: readonly Section[]): string =>
  sections.map(({ name, digest }) => `${name}=${digest}`).join(" ");
