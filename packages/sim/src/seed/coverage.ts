/** How much of what can be done at failpoints many seeds have done. */
import { fleetPairs, type Pair, pairs } from "../faults/pairs.ts";
import type { Profile } from "./draw-scenario.ts";
import type { Sums } from "./tally.ts";

/** Pairs of a failpoint and an action. */
export interface Coverage {
  readonly possible: number;
  /** Pairs that happened at least once. */
  readonly reached: number;
  /** Pairs that never did, e.g. `policy.accumulate drop`. */
  readonly never: readonly string[];
}

/** What the runs of a profile came to, or `null` when its faults have no failpoints. Jobs with nodes count what only they have. Pure. */
export function coverageOf(profile: Profile, points: Sums["points"]): Coverage | null {
  const { missed, possible } = missedBy(profile, points);
  const never = missed.map(({ point, action }) => `${point} ${action}`);
  return possible === 0 ? null : { possible, reached: possible - never.length, never };
}

/** The pairs of a profile that never happened. Pure. */
export function missedBy(
  profile: Profile,
  points: Sums["points"],
): { readonly missed: readonly Pair[]; readonly possible: number } {
  const wanted = profile === "swarm" ? pairs : profile === "fleet" ? fleetPairs : [];
  return { missed: wanted.filter(({ point, action }) => !points[point]?.[action]), possible: wanted.length };
}
