/** Runs many seeds and adds up what they were worth. */
import { type Coverage, coverageOf } from "./coverage.ts";
import type { Profile } from "./draw-scenario.ts";
import { reachMissing } from "./reach.ts";
import type { RunResult } from "./run-scenario.ts";
import { runSeed } from "./run-seed.ts";
import { addSeed, emptySums, type SeedResult, type Sums } from "./tally.ts";

/** Every so many seeds the run is repeated and must give the same hash. */
const rerunEvery = 50;

/** Profiles of which a run takes so long that nothing is repeated: a smaller one shows as much of that. */
const unrepeated: readonly Profile[] = ["multitude"];

/** Which seeds to run. */
export interface RunManyOptions {
  readonly profile: Profile;
  readonly firstSeed: number;
  readonly seeds: number;
  /** Monotonic time in ms, real. */
  readonly nowMs: () => number;
  /** No new seed is begun after that much real time. */
  readonly timeMs?: number;
  /** Who runs the seeds; default one after the other in this thread. */
  readonly runners?: readonly SeedRunner[];
  /** Pairs of a failpoint and an action that the seeds did not come to are gone for, one by one. */
  readonly isComplete?: boolean;
  /** Told of each run. */
  readonly onRun?: (result: RunResult) => void;
}

/** Runs one seed. */
export type SeedRunner = (
  seed: number,
  profile: Profile,
  options: { readonly isRepeated: boolean },
) => Promise<SeedResult>;

/** What many runs came to. */
export interface RunManyResult extends Readonly<Sums> {
  readonly profile: Profile;
  readonly firstSeed: number;
  readonly workers: number;
  readonly failed: readonly RunResult[];
  /** Which pairs of a failpoint and an action happened; `null` for profiles without failpoints. */
  readonly coverage: Coverage | null;
  readonly realMs: number;
}

/** Runs seeds: each runner takes the next one when it is free. @throws what a runner throws; the others begin no other seed then */
export async function runMany(options: RunManyOptions): Promise<RunManyResult> {
  const { profile, firstSeed, nowMs, timeMs = Number.POSITIVE_INFINITY, runners = [runSeed] } = options;
  const startedMs = nowMs();
  const sums = emptySums();
  const failed: RunResult[] = [];
  const onSeed = ({ result }: SeedResult): void => {
    if (result.violations.length > 0) failed.push(result);
    options.onRun?.(result);
  };
  let next = 0;
  let hasFailed = false;
  const work = async (run: SeedRunner): Promise<void> => {
    while (!hasFailed && next < options.seeds && nowMs() - startedMs < timeMs) {
      const index = next++;
      const isRepeated = index % rerunEvery === 0 && !unrepeated.includes(profile);
      const seed = await run(firstSeed + index, profile, { isRepeated }).catch((error: unknown) => {
        hasFailed = true;
        throw error;
      });
      addSeed(sums, seed);
      onSeed(seed);
    }
  };
  await Promise.all(runners.map(work));
  if (options.isComplete) await reachMissing(sums, { profile, firstSeed, onSeed });
  failed.sort((a, b) => a.scenario.seed - b.scenario.seed);
  const coverage = coverageOf(profile, sums.points);
  return { profile, firstSeed, workers: runners.length, failed, coverage, realMs: nowMs() - startedMs, ...sums };
}
