/** Lets every canary sing: for each deliberate bug, the seeds that the checkers needed to see it. */

import type { Violation } from "@muster/check/internal";
import type { Scenario } from "../cluster/scenario.ts";
import { drawScenario } from "../seed/draw-scenario.ts";
import { runScenario } from "../seed/run-scenario.ts";
import { runAndCompare } from "../seed/run-seed.ts";
import { barrierCanaries } from "./barrier-canaries.ts";
import { batchCanaries } from "./batch-canaries.ts";
import type { Canary } from "./canary.ts";
import { checkpointCanaries } from "./checkpoint-canaries.ts";
import { evictionCanaries } from "./eviction-canaries.ts";
import { fleetCanaries } from "./fleet-canaries.ts";
import { handlerCanaries } from "./handler-canaries.ts";
import { logicCanaries } from "./logic-canaries.ts";
import { lossCanaries } from "./loss-canaries.ts";
import { memoryCanaries } from "./memory-canaries.ts";
import { planCanaries } from "./plan-canaries.ts";
import { planeCanaries } from "./plane-canaries.ts";
import { roleCanaries } from "./role-canaries.ts";
import { shardCanaries } from "./shard-canaries.ts";
import { trainerShardCanaries } from "./trainer-shard-canaries.ts";
import { wireCanaries } from "./wire-canaries.ts";

/** Every deliberate bug. */
export const canaries: readonly Canary[] = [
  ...wireCanaries,
  ...planeCanaries,
  ...handlerCanaries,
  ...roleCanaries,
  ...logicCanaries,
  ...planCanaries,
  ...checkpointCanaries,
  ...shardCanaries,
  ...evictionCanaries,
  ...fleetCanaries,
  ...memoryCanaries,
  ...batchCanaries,
  ...lossCanaries,
  ...barrierCanaries,
  ...trainerShardCanaries,
];

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
export async function runCanary(canary: Canary): Promise<CanaryResult> {
  const { name, says, profile, seedsMax } = canary;
  // Always the same seeds: whether a bug is seen must not depend on the day.
  for (let seeds = 1; seeds <= seedsMax; seeds++) {
    const found = drawScenario(seeds, profile);
    const drawn = canary.shape?.(found) ?? found;
    const scenario = canary.stage ? { ...drawn, faults: canary.stage(drawn) } : drawn;
    const violations = canary.isRepeated
      ? await violationsOfTwo(scenario, canary)
      : await violationsOf(scenario, canary);
    const [first] = violations;
    // What the faults alone would show is no song of the canary.
    const isItsOwn = first && (await runAndCompare(scenario)).violations.length === 0;
    if (isItsOwn) return { name, says, caughtBy: first.invariant, detail: first.detail, seeds };
  }
  return { name, says, caughtBy: null, detail: "", seeds: seedsMax };
}

async function violationsOf(scenario: Scenario, canary: Canary): Promise<readonly Violation[]> {
  return (await runAndCompare(scenario, () => canary.make())).violations;
}

async function violationsOfTwo(scenario: Scenario, canary: Canary): Promise<readonly Violation[]> {
  const first = await runScenario(scenario, canary.make());
  const again = await runScenario(scenario, canary.make());
  if (first.hash === again.hash) return first.violations;
  return [
    { invariant: "S33", detail: `the log hashes to ${first.hash}, then to ${again.hash}`, atMs: first.virtualMs },
  ];
}
