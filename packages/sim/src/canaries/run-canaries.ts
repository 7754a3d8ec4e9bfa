/** Lets every canary sing: for each deliberate bug, the seeds that the checkers needed to see it. */
import { drawScenario } from "../seed/draw-scenario.ts";
import { runAndCompare } from "../seed/run-seed.ts";
import type { Canary } from "./canary.ts";
import { handCanaries } from "./hand-canaries.ts";
import { mindCanaries } from "./mind-canaries.ts";
import { wireCanaries } from "./wire-canaries.ts";

/** Every deliberate bug. */
export const canaries: readonly Canary[] = [...wireCanaries, ...handCanaries, ...mindCanaries];

/** What became of one canary. */
export interface CanaryResult {
  readonly name: string;
  readonly says: string;
  /** The invariant by which it was seen, or `null` when no seed showed it. */
  readonly caughtBy: string | null;
  readonly detail: string;
  /** Seeds that were run. */
  readonly seeds: number;
}

/** Runs seeds with a deliberate bug until the checkers see it. */
export async function runCanary(canary: Canary, firstSeed = 1): Promise<CanaryResult> {
  const { name, says, profile, seedsMax } = canary;
  for (let seeds = 1; seeds <= seedsMax; seeds++) {
    const drawn = drawScenario(firstSeed + seeds - 1, profile);
    const scenario = canary.stage ? { ...drawn, faults: canary.stage(drawn) } : drawn;
    const { violations } = await runAndCompare(scenario, () => canary.make());
    const [first] = violations;
    // What the faults alone would show is no song of the canary.
    const isItsOwn = first && (await runAndCompare(scenario)).violations.length === 0;
    if (isItsOwn) return { name, says, caughtBy: first.invariant, detail: first.detail, seeds };
  }
  return { name, says, caughtBy: null, detail: "", seeds: seedsMax };
}
