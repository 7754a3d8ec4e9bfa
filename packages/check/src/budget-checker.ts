/**
 * What has a time of its own where the job as a whole has one: once the faults are over a prompt ends within its attempts (L2), and a checkpoint
 * that is due is durable after three times as long as saving may take without a fault (L7).
 */
import { type ControllerState, countOf } from "@muster/machines/controller";
import type { JobConfig } from "@muster/protocol";
import type { Allowance } from "./allowance.ts";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";

/** Watches single prompts and checkpoints. Times are those of the world. */
export class BudgetChecker {
  readonly #world: { readonly nowMs: number };
  readonly #judge: Judge;
  readonly #calmMs: number;
  readonly #promptMs: number;
  readonly #saveMs: number;
  readonly #everySteps: number;
  /** Since when somebody holds a prompt, by step and index. */
  readonly #begun = new Map<string, { readonly step: number; readonly index: number; atMs: number }>();
  /** The step that should be durable, and since when somebody could have saved it. */
  #due: { readonly step: number; readonly atMs: number } | null = null;

  constructor(
    world: { readonly nowMs: number },
    judge: Judge,
    given: { readonly config: JobConfig; readonly allowed: Allowance; readonly calmMs: number },
  ) {
    const { timing, checkpoint } = given.config;
    const { promptMs, membershipMs } = given.allowed;
    this.#world = world;
    this.#judge = judge;
    this.#calmMs = given.calmMs > 0 ? given.calmMs + membershipMs : 0;
    this.#promptMs = promptMs;
    this.#saveMs = 3 * timing.checkpointMs;
    this.#everySteps = checkpoint.everySteps;
  }

  /** A decision was journaled. */
  decided({ before, after }: Decision): void {
    if (before.leases !== after.leases) this.#noteLeases(after);
    this.#checkPrompts(after);
    if (before.checkpoints.saved !== after.checkpoints.saved) this.#due = null;
    this.#checkDue(after);
  }

  #noteLeases({ leases }: ControllerState): void {
    for (const { items } of Object.values(leases))
      for (const item of items) {
        if (item.purpose !== "train") continue;
        const { step, index } = item;
        const key = `${step}.${index}`;
        if (!this.#begun.has(key)) this.#begun.set(key, { step, index, atMs: this.#world.nowMs });
      }
  }

  /** While nobody samples no time counts: L1 watches that. */
  #checkPrompts(state: ControllerState): void {
    const { groups, weights, ending } = state;
    const { nowMs } = this.#world;
    const isSampled = countOf(state, "rollout") > 0;
    for (const [key, begun] of this.#begun) {
      const { step, index } = begun;
      const { receipts, quarantined } = groups[step] ?? {};
      if (!weights || ending || !receipts || receipts[index] || quarantined?.includes(index)) this.#begun.delete(key);
      if (!isSampled) begun.atMs = nowMs;
      const tookMs = nowMs - Math.max(begun.atMs, this.#calmMs);
      this.#judge.require(
        tookMs <= this.#promptMs,
        "L2",
        () => `group ${key} is under way for ${Math.round(tookMs)} ms, ${Math.round(this.#promptMs)} are allowed`,
      );
    }
  }

  #checkDue(state: ControllerState): void {
    const { nowMs } = this.#world;
    const step = this.#dueStep(state);
    if (step === null) this.#due = null;
    else this.#due ??= { step, atMs: nowMs };
    if (!this.#due) return;
    const { step: oldest, atMs } = this.#due;
    const tookMs = nowMs - Math.max(atMs, this.#calmMs);
    this.#judge.require(
      tookMs <= this.#saveMs,
      "L7",
      () => `step ${oldest} should be durable for ${Math.round(tookMs)} ms, ${this.#saveMs} are allowed`,
    );
  }

  /** The last step that should be durable and is not, as long as there is somebody who holds it and somebody who could write it. */
  #dueStep(state: ControllerState): number | null {
    const { step, weights, checkpoints, ending } = state;
    if (this.#everySteps === 0 || !weights || ending) return null;
    const committed = step.step - 1;
    const due = committed - (committed % this.#everySteps);
    const isPossible = countOf(state, "policy") > 0 && countOf(state, "checkpoint") > 0;
    return isPossible && due > (checkpoints.saved?.step ?? 0) ? due : null;
  }
}
