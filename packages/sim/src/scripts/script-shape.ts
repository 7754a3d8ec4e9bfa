/** A script of several ranks that waits at barriers beside a job: what it does, and what goes wrong with its ranks. Plain data. */
import type { Random } from "@muster/base";
import { barrierPolicies } from "@muster/protocol";

/** One script. Times are virtual ms. */
export interface ScriptShape {
  readonly ranks: number;
  readonly weights: readonly number[];
  readonly iterations: number;
  /** Phases at whose end all ranks meet, in order; the first is 0. */
  readonly phases: readonly number[];
  readonly onMissing: (typeof barrierPolicies)[number];
  readonly quorum: number;
  readonly timeoutMs: number;
  readonly items: number;
  /** Mean time of a rank for one phase. */
  readonly workMs: number;
  /** Share of arrivals before which a rank says something that can not be, or arrives under the number of another. */
  readonly lieRate: number;
  /** When which rank is killed. */
  readonly deaths: readonly { readonly atMs: number; readonly rank: number }[];
  /** How long a rank is away after its end, at most: some come after the deadline. */
  readonly awayMs: number;
}

/** Draws a script whose ranks die while there are faults. Pure. */
export function drawScript(random: Random, safetyMs: number): ScriptShape {
  const ranks = 2 + random.below(5);
  const timeoutMs = 2_000 + random.below(10_000);
  // One dies when all else is well: then a deadline is kept to the second.
  const last = { atMs: safetyMs + 15_000 + random.below(20_000), rank: random.below(ranks) };
  return {
    ranks,
    weights: Array.from({ length: ranks }, () => 1 + random.below(4)),
    iterations: 3 + random.below(4),
    phases: [0, 3, 7, 13].slice(0, 2 + random.below(3)),
    onMissing: barrierPolicies[random.below(barrierPolicies.length)] ?? "wait",
    quorum: 1 + random.below(ranks),
    timeoutMs,
    items: random.below(4) === 0 ? 0 : 1 + random.below(1_000),
    workMs: 300 + random.below(2_000),
    lieRate: random.below(2) === 0 ? 0 : 0.3,
    deaths: [
      ...Array.from({ length: random.below(2 * ranks) }, () => ({
        atMs: Math.round(random.next() * safetyMs),
        rank: random.below(ranks),
      })),
      last,
    ],
    awayMs: 500 + random.below(3 * timeoutMs),
  };
}
