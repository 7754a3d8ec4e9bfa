/** Goes for what many seeds did not come to: seeds in which nothing is armed but one pair, as often as it takes, within bounds. */
import { randomOf } from "@muster/base";
import { armOf } from "../faults/draw-arms.ts";
import type { Pair } from "../faults/pairs.ts";
import { missedBy } from "./coverage.ts";
import { drawScenario, type Profile } from "./draw-scenario.ts";
import { runDrawn } from "./run-seed.ts";
import { addSeed, type SeedResult, type Sums } from "./tally.ts";

/** Seeds for one pair at most. */
const triesMax = 60;

/** Largest share of pairs that is gone for: when more is missing, too few seeds were run. */
const missedShareMax = 0.05;

/** Runs seeds for each pair that never happened, until it has; what they come to is added to `sums`. */
export async function reachMissing(
  sums: Sums,
  {
    profile,
    firstSeed,
    onSeed,
  }: { readonly profile: Profile; readonly firstSeed: number; readonly onSeed: (seed: SeedResult) => void },
): Promise<void> {
  const { missed, possible } = missedBy(profile, sums.points);
  if (missed.length > possible * missedShareMax) return;
  for (const pair of missed)
    for (let i = 0; i < triesMax && !sums.points[pair.point]?.[pair.action]; i++) {
      const seed = await runDrawn(armed(firstSeed + i, profile, pair));
      addSeed(sums, seed);
      onSeed(seed);
    }
}

/** A seed whose failpoints are nothing but the pair, the first time that somebody comes there. */
function armed(seed: number, profile: Profile, pair: Pair) {
  const scenario = drawScenario(seed, profile);
  const others = scenario.faults.filter(({ kind }) => kind !== "failpoint");
  return { ...scenario, faults: [...others, armOf(pair, 1, randomOf(seed))] };
}
