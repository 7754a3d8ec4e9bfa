/** A replica of several processes does not live on with one that hears nothing any more (L10). */
import type { Judge } from "@muster/check/internal";
import type { Scenario } from "../cluster/scenario.ts";
import type { SimProcess } from "../world/process.ts";
import { allowanceOf } from "./allowance.ts";

/** As often in a row rank 0 asks before it gives its replica up, and once more for what was under way. */
const questions = 4;

/** Watches processes that are stuck. */
export class DeafChecker {
  readonly #judge: Judge;
  readonly #calmMs: number;
  readonly #allowedMs: number;
  readonly #isJobOver: () => boolean;

  constructor(judge: Judge, scenario: Scenario, isJobOver: () => boolean) {
    const { stepMs, meshMs, pullMs } = scenario.config.timing;
    this.#judge = judge;
    this.#calmMs = scenario.safetyMs;
    this.#allowedMs = allowanceOf(scenario).progressMs + stepMs + questions * Math.max(meshMs, pullMs);
    this.#isJobOver = isJobOver;
  }

  /** From now on this process hears nothing. */
  stuck(process: SimProcess): void {
    const { world, name } = process;
    const waitMs = Math.max(0, this.#calmMs - world.nowMs) + this.#allowedMs;
    world.after(waitMs, () => {
      const isFine = process.isDead || this.#isJobOver();
      this.#judge.require(
        isFine,
        "L10",
        () => `${name} hears nothing for ${Math.round(waitMs)} ms, and its replica lives`,
      );
    });
  }
}
