/** Runs many seeds and adds up what they were worth. */
import { drawScenario, type Profile } from "./draw-scenario.ts";
import { type RunResult, runScenario } from "./run-scenario.ts";
import { runAndCompare } from "./run-seed.ts";

/** Every so many seeds the run is repeated and must give the same hash. */
const rerunEvery = 50;

/** Which seeds to run. */
export interface RunManyOptions {
  readonly profile: Profile;
  readonly firstSeed: number;
  readonly seeds: number;
  /** Monotonic time in ms, real. */
  readonly nowMs: () => number;
  /** No new seed is begun after that much real time. */
  readonly timeMs?: number;
  /** Told of each run. */
  readonly onRun?: (result: RunResult) => void;
}

/** What many runs came to. */
export interface RunManyResult {
  readonly profile: Profile;
  readonly firstSeed: number;
  readonly seeds: number;
  readonly failed: readonly RunResult[];
  readonly virtualMs: number;
  readonly realMs: number;
  readonly events: number;
  readonly nodeHours: number;
  readonly trajectories: number;
  /** Runs in sync mode whose last weights were compared with those of a quiet run. */
  readonly compared: number;
  /** Runs that were repeated to compare the hashes of their logs. */
  readonly repeated: number;
  readonly faults: Readonly<Record<string, number>>;
}

/** Runs seeds one after the other. */
export async function runMany(options: RunManyOptions): Promise<RunManyResult> {
  const { profile, firstSeed, nowMs, timeMs = Number.POSITIVE_INFINITY } = options;
  const startedMs = nowMs();
  const sums = { virtualMs: 0, events: 0, nodeHours: 0, trajectories: 0, compared: 0, repeated: 0 };
  const faults: Record<string, number> = {};
  const failed: RunResult[] = [];
  let seeds = 0;
  while (seeds < options.seeds && nowMs() - startedMs < timeMs) {
    const result = await runOne(firstSeed + seeds, profile, seeds % rerunEvery === 0);
    seeds += 1;
    sums.virtualMs += result.virtualMs;
    sums.events += result.events;
    sums.nodeHours += result.nodeHours;
    sums.trajectories += result.end?.ledger.admitted ?? 0;
    if (result.scenario.config.mode === "sync" && result.scenario.faults.length > 0) sums.compared += 1;
    if (seeds % rerunEvery === 1) sums.repeated += 1;
    for (const [name, count] of result.faults) faults[name] = (faults[name] ?? 0) + count;
    if (result.violations.length > 0) failed.push(result);
    options.onRun?.(result);
  }
  return { profile, firstSeed, seeds, failed, ...sums, realMs: nowMs() - startedMs, faults };
}

async function runOne(seed: number, profile: Profile, isRepeated: boolean): Promise<RunResult> {
  const scenario = drawScenario(seed, profile);
  const result = await runAndCompare(scenario);
  if (!isRepeated) return result;
  const again = await runScenario(scenario);
  if (again.hash === result.hash) return result;
  const detail = `the log hashes to ${result.hash}, and to ${again.hash} when it is run again`;
  return { ...result, violations: [...result.violations, { invariant: "S33", detail, atMs: result.virtualMs }] };
}
