/**
 * What the loss of a replica costs the others (L5): losing some trainers holds the others up for no longer than to find out and to build the next
 * mesh; losing a sampler never disturbs a step that has its groups.
 */
import { type ControllerState, membersOf } from "@muster/machines/controller";
import type { JobConfig } from "@muster/protocol";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";
import { changesOf, lostIn } from "./member-changes.ts";
import type { Mortal } from "./observed.ts";

/** Orders and answers of a mesh that is built without trouble, and the tick that notices. */
const marginMs = 2_000;

/** Watches losses. Times are those of the world. */
export class LossChecker {
  readonly #world: { readonly nowMs: number };
  readonly #judge: Judge;
  readonly #detectMs: number;
  readonly #meshMs: number;
  /** How long something takes is judged only where nothing but deaths can explain it. */
  readonly #isSimple: boolean;
  /** Trainers that died and may still count as members, by incarnation. */
  readonly #dead = new Map<string, { readonly id: string; readonly atMs: number }>();
  /** Since when a controller acts without a break. */
  #termMs = 0;
  /** Since when some trainers go on without others, and have no mesh of their own yet. */
  #brokenMs: number | null = null;
  #longest = { detectMs: 0, meshMs: 0 };

  constructor(
    world: { readonly nowMs: number },
    judge: Judge,
    { timing, isSimple }: Pick<JobConfig, "timing"> & { readonly isSimple: boolean },
  ) {
    this.#world = world;
    this.#judge = judge;
    this.#detectMs = timing.deadAfterMs + marginMs;
    this.#meshMs = timing.meshMs + marginMs;
    this.#isSimple = isSimple;
  }

  /** The longest that it took, ms. */
  get longest(): { readonly detectMs: number; readonly meshMs: number } {
    return this.#longest;
  }

  /** A life begins inside a process. */
  identified(incarnation: string, process: Mortal): void {
    if (process.role !== "policy") return;
    process.onDeath(() => this.#dead.set(incarnation, { id: process.node, atMs: this.#world.nowMs }));
  }

  /** A decision was journaled. */
  decided(decision: Decision): void {
    const { event, before, after } = decision;
    if (event.type === "controller.elected") {
      this.#termMs = this.#world.nowMs;
      if (this.#brokenMs !== null) this.#brokenMs = this.#world.nowMs;
    }
    if (before.members !== after.members) this.#checkSampler(decision);
    this.#checkDetection(after);
    if (!this.#isSimple || after.ending) return;
    this.#checkMesh(before, after);
  }

  /** A step that is computed needs no sampler. */
  #checkSampler({ event, before, after }: Decision): void {
    // A vote may name what cannot be read: then the step is tried again for that, and who wrote it too often is evicted.
    const isOther = ["controller.tick", "controller.elected", "step.voted"].includes(event.type);
    const lost = lostIn(before, after);
    if (isOther || before.step.state !== "running" || after.ending || lost.length === 0) return;
    if (lost.some(({ role }) => role !== "rollout")) return;
    const { step, mesh } = after;
    const isSame = step.step === before.step.step && step.attempt === before.step.attempt;
    this.#judge.require(
      isSame && mesh.epoch === before.mesh.epoch && mesh.state === before.mesh.state,
      "L5",
      () =>
        `step ${before.step.step} is disturbed by the loss of ${lost.map(({ id }) => id).join(", ")}, which samples`,
    );
  }

  /** Nobody who is dead is a member for longer than it takes to find out. */
  #checkDetection({ members }: ControllerState): void {
    for (const [incarnation, { id, atMs }] of this.#dead) {
      const tookMs = this.#world.nowMs - Math.max(atMs, this.#termMs);
      if (members[id]?.incarnation !== incarnation) this.#dead.delete(incarnation);
      else if (this.#isSimple) {
        this.#longest = { ...this.#longest, detectMs: Math.max(this.#longest.detectMs, tookMs) };
        this.#judge.require(
          tookMs <= this.#detectMs,
          "L5",
          () => `${id} is dead for ${Math.round(tookMs)} ms and a member, ${this.#detectMs} are allowed`,
        );
      }
    }
  }

  /** From a loss until those who are left have a mesh; every change of who may be in it begins anew. */
  #checkMesh(before: ControllerState, after: ControllerState): void {
    const { nowMs } = this.#world;
    const isTouched = changesOf(before, after).some(({ was, now }) => (now ?? was)?.role === "policy");
    const isChanged = isTouched && policiesOf(before) !== policiesOf(after);
    const isLess = lostIn(before, after).some(({ id }) => before.mesh.members.includes(id));
    const canGoOn = after.weights !== null && after.mesh.members.some((id) => isAble(after, id));
    if (isLess || (this.#brokenMs !== null && isChanged)) this.#brokenMs = nowMs;
    if (!canGoOn) this.#brokenMs = null;
    if (this.#brokenMs === null) return;
    const tookMs = nowMs - this.#brokenMs;
    this.#longest = { ...this.#longest, meshMs: Math.max(this.#longest.meshMs, tookMs) };
    this.#judge.require(
      tookMs <= this.#meshMs,
      "L5",
      () => `trainers are left, and have no mesh for ${Math.round(tookMs)} ms, ${this.#meshMs} are allowed`,
    );
    if (after.mesh.state === "ready" && after.mesh.members.every((id) => after.members[id] !== undefined))
      this.#brokenMs = null;
  }
}

/** The trainers and what they hold, as one text. */
function policiesOf(state: ControllerState): string {
  return membersOf(state, "policy")
    .map(({ incarnation, held, health }) => `${incarnation} ${held?.lineage}.${held?.version} ${health}`)
    .join();
}

/** A trainer that stays, and holds the newest weights. */
function isAble({ members, weights }: ControllerState, id: string): boolean {
  const { held, health } = members[id] ?? {};
  return health === "healthy" && held?.lineage === weights?.lineage && held?.version === weights?.version;
}
