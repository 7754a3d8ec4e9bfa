/** Adds up what runs were worth. */
import type { RunResult } from "./run-scenario.ts";

/** One seed: the run, and what was run to compare it with. */
export interface SeedResult {
  readonly result: RunResult;
  /** The same job without faults, and the same run again. */
  readonly others: readonly Pick<RunResult, "virtualMs" | "events" | "nodeHours">[];
  /** The last weights were compared with those of the job without faults. */
  readonly isCompared: boolean;
  /** The run was repeated to compare the hash of its log. */
  readonly isRepeated: boolean;
}

/** How often a failpoint was reached, and what was done there how often. */
export type PointTally = Record<string, number> & { hits: number };

/** The sums of many runs; times and events are those of all runs, also of the ones that were run to compare. */
export interface Sums {
  seeds: number;
  virtualMs: number;
  events: number;
  nodeHours: number;
  trajectories: number;
  compared: number;
  repeated: number;
  readonly faults: Record<string, number>;
  readonly points: Record<string, PointTally>;
}

/** Nothing yet. */
export function emptySums(): Sums {
  const zero = { seeds: 0, virtualMs: 0, events: 0, nodeHours: 0, trajectories: 0, compared: 0, repeated: 0 };
  return { ...zero, faults: {}, points: {} };
}

/** Adds one seed, in place. */
export function addSeed(sums: Sums, { result, others, isCompared, isRepeated }: SeedResult): void {
  sums.seeds += 1;
  for (const run of [result, ...others]) {
    sums.virtualMs += run.virtualMs;
    sums.events += run.events;
    sums.nodeHours += run.nodeHours;
  }
  sums.trajectories += result.end?.ledger.admitted ?? 0;
  sums.compared += isCompared ? 1 : 0;
  sums.repeated += isRepeated ? 1 : 0;
  for (const [name, count] of result.faults) sums.faults[name] = (sums.faults[name] ?? 0) + count;
  for (const [point, count] of result.points) tallyOf(sums, point).hits += count;
  for (const { point, action, count } of result.strikes) {
    const tally = tallyOf(sums, point);
    tally[action] = (tally[action] ?? 0) + count;
  }
}

function tallyOf(sums: Sums, point: string): PointTally {
  const known = sums.points[point] ?? { hits: 0 };
  sums.points[point] = known;
  return known;
}
