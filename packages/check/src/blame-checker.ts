/**
 * Who is given up, and why (S20): a group goes only when as many holders as it has attempts were really lost over it, whatever the controller
 * has counted. What may be taken for a loss is one by its cause: the process is dead, hangs, or was struck, or the way to it was. Where kills and
 * drains are the only faults, four kills count as one in a storm ({@link KillStorm}).
 */
import type { ControllerState } from "@muster/machines/controller";
import { failureRuleOf, type JobConfig } from "@muster/protocol";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";
import { isSeenKill, KillStorm } from "./kill-storm.ts";
import type { Observed } from "./observed.ts";

/** How much sooner than the controller a holder may think its lease over, as a share of it. */
const leaseMargin = 0.05;

/** Counts the losses of holders by group. */
export class BlameChecker {
  readonly #judge: Judge;
  readonly #policy: JobConfig["failure"];
  /** True when a loss may be anybody's. */
  readonly #isWide: boolean;
  readonly #lives = new Map<string, Observed>();
  readonly #struck = new Set<Observed>();
  readonly #losses = new Map<string, number>();
  /** `null` where a storm may have other signs than kills. */
  readonly #storm: KillStorm | null;

  constructor(
    judge: Judge,
    policy: JobConfig["failure"],
    { isWide, areKills = false }: { readonly isWide: boolean; readonly areKills?: boolean },
  ) {
    this.#judge = judge;
    this.#policy = policy;
    this.#isWide = isWide;
    this.#storm = areKills ? new KillStorm() : null;
  }

  /** A life begins inside a process. */
  identified(incarnation: string, process: Observed): void {
    this.#lives.set(incarnation, process);
  }

  /** A fault, or a prompt, struck a process. */
  struck(process: Observed): void {
    this.#struck.add(process);
  }

  /** A decision was journaled. */
  decided(decision: Decision): void {
    const { event, before, after, effects } = decision;
    const leaver = event.type === "replica.left" || event.type === "replica.draining" ? event.from : null;
    this.#storm?.decided(decision);
    if (before.leases !== after.leases) this.#countLosses(decision, leaver);
    if (before.groups !== after.groups) this.#checkGivenUp(before, after, effects);
  }

  /** Of what is given up for its gradient, or with its step, no holder is lost. */
  #checkGivenUp(before: ControllerState, after: ControllerState, effects: Decision["effects"]): void {
    const facts = effects.flatMap((effect) => (effect.type === "announce" ? effect : []));
    if (facts.some(({ kind }) => kind === "step.skipped")) return;
    for (const [step, { quarantined }] of Object.entries(after.groups)) {
      const known = before.groups[Number(step)]?.quarantined ?? quarantined;
      for (const index of quarantined.filter((each) => !known.includes(each))) {
        const item = `${step}.${index}`;
        // A group whose result was there is given up for what it does to trainers.
        if (before.groups[Number(step)]?.receipts[index]) {
          this.#storm?.explained();
          continue;
        }
        const fact = facts.find((each) => each.kind === "groups.quarantined" && each.body.item === item);
        const failure = fact?.kind === "groups.quarantined" ? fact.body.failure : "engine_crash";
        if (failure === "non_finite") continue;
        const wanted = failureRuleOf(this.#policy, failure).attempts;
        const found = this.#losses.get(item) ?? 0;
        const detail = (): string => `${item} is given up, ${found} of its holders were lost over it, not ${wanted}`;
        this.#judge.require(found >= wanted, "S20", detail);
        const weight = this.#storm?.weightOf(item, found) ?? found;
        const inStorm = (): string =>
          `${item} is given up in a storm, its ${found} losses count as ${weight}, not ${wanted}`;
        this.#judge.require(found < wanted || weight >= wanted, "S20", inStorm);
      }
    }
  }

  /** Whatever was held and is neither held by the same lease any more nor finished was lost with its holder, unless that one hands it back. */
  #countLosses({ event, before, after }: Decision, leaver: string | null): void {
    for (const id in before.leases) {
      const lease = before.leases[id];
      if (!lease || lease === after.leases[id] || lease.holder === leaver) continue;
      const isOver = lease.dueAtMs - after.nowMs <= leaseMargin * after.plan.timing.leaseMs;
      if (!isOver && !this.#isExplained(before, lease.holder)) continue;
      const left = new Set(after.leases[id]?.items);
      for (const item of lease.items) {
        if (item.purpose !== "train" || left.has(item)) continue;
        const key = `${item.step}.${item.index}`;
        if (after.groups[item.step]?.receipts[item.index]) continue;
        const found = (this.#losses.get(key) ?? 0) + 1;
        this.#losses.set(key, found);
        if (isSeenKill(event) && event.body.id === lease.holder) this.#storm?.lost(key, found, after);
      }
    }
  }

  #isExplained({ members }: ControllerState, holder: string): boolean {
    if (this.#isWide) return true;
    const process = this.#lives.get(members[holder]?.incarnation ?? "");
    return !process || process.isDead || process.isStuck === true || this.#struck.has(process);
  }
}
