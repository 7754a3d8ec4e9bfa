/** Progress: somebody always acts for the job, and once the faults are over steps are committed and made durable (L1, L3, L4, L7). */
import { type ControllerState, countOf } from "@muster/machines/controller";
import { stepsAfter } from "@muster/protocol";
import type { Allowance } from "./allowance.ts";
import type { Decision } from "./journal-model.ts";
import type { Judge } from "./judge.ts";
import { pauseOf } from "./membership-checker.ts";
import type { Mortal, Timeline } from "./observed.ts";

/** Watches what has not happened for how long. */
export class ProgressChecker {
  readonly #world: Timeline;
  readonly #judge: Judge;
  readonly #calmMs: number;
  readonly #allowed: Allowance;
  /** How long nobody acts is judged only where nothing else can explain it. */
  readonly #isSimple: boolean;
  readonly #controllers = new Set<Mortal>();
  #leaderlessMs: number | null = null;
  #isJobOver = false;
  #progressMs = 0;
  /** Until when somebody without whom nothing can be done has to wait for his admission. */
  #pausedUntilMs = 0;
  #longestMs = 0;

  constructor(
    world: Timeline,
    judge: Judge,
    given: { readonly allowed: Allowance; readonly calmMs: number; readonly isSimple: boolean },
  ) {
    this.#world = world;
    this.#judge = judge;
    this.#calmMs = given.calmMs;
    this.#allowed = given.allowed;
    this.#isSimple = given.isSimple;
  }

  /** The longest time without progress after the faults. */
  get longestMs(): number {
    return this.#longestMs;
  }

  /** Calls back when everybody must have come back after the faults. */
  whenCalm(run: () => void): void {
    this.#world.after(this.#calmMs + this.#allowed.membershipMs, run);
  }

  /** A process begins. */
  started(process: Mortal): void {
    if (process.role !== "controller") return;
    // A new one that only comes does not act yet.
    if (!this.#isJobOver) this.#checkSuccession();
    this.#controllers.add(process);
    process.onDeath(() => {
      this.#controllers.delete(process);
      if (this.#controllers.size === 0) this.#leaderlessMs ??= this.#world.nowMs;
    });
  }

  /** A controller wrote a record: somebody acts. */
  acted(): void {
    this.#checkSuccession();
    this.#leaderlessMs = null;
  }

  /** The run is over: a job that is not must have had somebody who acts for it. */
  conclude(): void {
    if (!this.#isJobOver) this.#checkSuccession();
    this.check();
  }

  #checkSuccession(): void {
    const gapMs = this.#world.nowMs - (this.#leaderlessMs ?? this.#world.nowMs);
    this.#judge.require(
      !this.#isSimple || gapMs <= this.#allowed.successionMs,
      "L4",
      () => `nobody acted for ${Math.round(gapMs)} ms after the controller had died`,
    );
  }

  /** The job is done: what it made is durable, unless faults were in the way. */
  ended({ plan, changes, checkpoints }: ControllerState): void {
    const last = stepsAfter(plan.steps, changes);
    const isCalm = this.#calmMs === 0 || this.#world.nowMs > this.#calmMs + this.#allowed.membershipMs;
    if (!isCalm || plan.checkpointReplicas === 0) return;
    this.#judge.require(
      checkpoints.saved?.step === last,
      "L7",
      () => `the job is done with step ${last}, its newest checkpoint is of step ${checkpoints.saved?.step}`,
    );
  }

  /** A decision was journaled. */
  decided({ before, after }: Decision): void {
    const isProgress =
      before.step.step !== after.step.step ||
      before.weights !== after.weights ||
      before.checkpoints.saved !== after.checkpoints.saved ||
      before.ledger.quarantined !== after.ledger.quarantined ||
      before.evaluation?.settled.length !== after.evaluation?.settled.length ||
      before.ending !== after.ending;
    if (isProgress) this.check();
    if (before.waiting !== after.waiting || before.members !== after.members) this.#notePause(after);
    this.#isJobOver = after.stopped;
  }

  /** A pause that ends early counts until then. */
  #notePause(state: ControllerState): void {
    const { nowMs } = this.#world;
    const pauseMs = pauseOfAll(state);
    this.#pausedUntilMs = pauseMs > 0 ? nowMs + pauseMs : Math.min(this.#pausedUntilMs, nowMs);
  }

  /** Something was got done. */
  check(): void {
    const { nowMs } = this.#world;
    const gapMs = nowMs - Math.max(this.#progressMs, this.#calmMs, Math.min(this.#pausedUntilMs, nowMs));
    this.#progressMs = nowMs;
    if (gapMs <= 0) return;
    this.#longestMs = Math.max(this.#longestMs, gapMs);
    this.#judge.require(
      gapMs <= this.#allowed.progressMs,
      "L1",
      () => `nothing was got done for ${Math.round(gapMs)} ms, ${Math.round(this.#allowed.progressMs)} ms are allowed`,
    );
  }
}

/** How long the job has nobody to train or nobody to sample because they flapped (reliability 4.2); 0 when it has both. Pure. */
function pauseOfAll(state: ControllerState): number {
  if (countOf(state, "policy") > 0 && countOf(state, "rollout") > 0) return 0;
  const lives = Object.entries(state.waiting).map(([id, { incarnation }]) => ({ id, incarnation }));
  return Math.max(0, ...lives.map((life) => pauseOf(state, life)));
}
