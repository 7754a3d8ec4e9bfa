/** What people read of runs: sums, and everything that is needed to look into a failure. Pure. */
import { formatDuration } from "@muster/base";
import type { CanaryResult } from "./canaries/run-canaries.ts";
import type { Coverage } from "./seed/coverage.ts";
import type { RunManyResult } from "./seed/run-many.ts";
import type { RunResult } from "./seed/run-scenario.ts";

/** Pairs that are named in the sums; `--json` names all. */
const namedMax = 10;

/** A failing run: its seed, shape, faults and last events. */
export function failureText(result: RunResult): string {
  const { scenario, violations, lines, hash } = result;
  const { seed, profile, config, work, faults, controllers = 1 } = scenario;
  return [
    `seed ${seed}, profile ${profile}, log hash ${hash}`,
    ...violations.map(({ invariant, detail, atMs }) => `  ${invariant} at ${formatDuration(atMs)}: ${detail}`),
    `  shape: ${JSON.stringify({ ...config.replicas, controllers, mode: config.mode, steps: config.steps, batch: config.batch })}`,
    `  timing: ${JSON.stringify(config.timing)}`,
    `  work: ${JSON.stringify(work)}`,
    ...faults.map((fault) => `  fault: ${JSON.stringify(fault)}`),
    "  last events:",
    ...lines.map((line) => `  ${line}`),
    `  again: muster sim --profile ${profile} --seed ${seed}`,
  ].join("\n");
}

/**
 * The sums of many runs; the last lines name the seeds that failed, and count.
 *
 * @param others - What failed besides, to be counted with the seeds.
 */
export function summaryText(result: RunManyResult, others = 0): string {
  const { profile, firstSeed, seeds, failed, virtualMs, realMs, faults, workers, coverage } = result;
  const injected = injectedIn(result);
  const kinds = Object.entries(faults).sort(([, a], [, b]) => b - a);
  const reached = Object.keys(result.points).length;
  const last = firstSeed + seeds - 1;
  return [
    `${seeds} seeds of profile ${profile} (${firstSeed} to ${last}) in ${formatDuration(realMs)}, ${workers} at a time`,
    `virtual time    ${formatDuration(virtualMs)} (${result.nodeHours.toFixed(1)} node-hours), ${speedUpOf(result)} times real time`,
    `events          ${result.events}, trajectories ${result.trajectories}, failpoints reached ${reached}`,
    `faults          ${injected}${kinds.length > 0 ? `: ${kinds.map(([name, count]) => `${name} ${count}`).join(", ")}` : ""}`,
    ...(coverage ? [`covered         ${coverageText(coverage)}`] : []),
    `checked         ${result.compared} runs against their quiet run, ${result.repeated} repeated for their hash`,
    failed.length === 0
      ? "violations      none"
      : `violations      ${failed.length}: seeds ${failed.map(({ scenario }) => scenario.seed).join(", ")}`,
    ...failed.map(({ scenario, violations: [first] }) =>
      failedLine(
        `seed ${scenario.seed} of profile ${profile}`,
        first ? `${first.invariant}: ${first.detail}` : "it does not say why",
      ),
    ),
    ...(others > 0
      ? [failedLine(`profile ${profile}`, `never reached ${coverage?.never.slice(0, namedMax).join(", ")}`)]
      : []),
    "",
    `${seeds - failed.length} passed, ${failed.length + others} failed`,
  ].join("\n");
}

/** What failed, in one line as continuous integration gathers it. */
function failedLine(what: string, why: string): string {
  return `failed: muster sim > ${what}: ${why.replaceAll(/\s+/g, " ")}`;
}

/** How many pairs of a failpoint and an action happened, and the first of those that never did. */
function coverageText({ possible, reached, never }: Coverage): string {
  const named = never.slice(0, namedMax).join(", ");
  const more = never.length > namedMax ? ` and ${never.length - namedMax} more` : "";
  const missed = never.length > 0 ? `; never: ${named}${more}` : "";
  return `${reached} of ${possible} pairs of a failpoint and an action${missed}`;
}

/** How many faults were injected, of all kinds together. */
export function injectedIn({ faults }: Pick<RunManyResult, "faults">): number {
  return Object.values(faults).reduce((sum, count) => sum + count, 0);
}

/** How many times faster than real time all runs together were. */
export function speedUpOf({ virtualMs, realMs }: Pick<RunManyResult, "virtualMs" | "realMs">): number {
  return Math.round(virtualMs / Math.max(1, realMs));
}

/** One line for a canary. */
export function canaryText({ name, says, caughtBy, seeds }: CanaryResult): string {
  const how = caughtBy === null ? `NOT SEEN in ${seeds} seeds` : `${caughtBy} after ${seeds} seeds`;
  return `${name.padEnd(28)} ${how.padEnd(24)} ${says}`;
}

/** The sums of many canaries out of `all`; the last line counts them, and one before it those that were left out. */
export function canariesText(results: readonly CanaryResult[], all: number): string {
  const left = all - results.length;
  const seen = results.filter(({ caughtBy }) => caughtBy !== null);
  const needed = seen.map(({ seeds }) => seeds).sort((a, b) => a - b);
  const median = needed[needed.length >> 1] ?? 0;
  const most = needed.at(-1) ?? 0;
  return [
    `${seen.length} of ${results.length} deliberate bugs were seen, after ${median} seeds in the median and ${most} at most`,
    ...(left > 0 ? [`skipped: ${left} of ${all} deliberate bugs: only a sample of them was asked for`] : []),
    ...results
      .filter(({ caughtBy }) => caughtBy === null)
      .map(({ name, seeds }) => failedLine(`deliberate bug ${name}`, `not seen in ${seeds} seeds`)),
    "",
    `${seen.length} passed, ${results.length - seen.length} failed`,
  ].join("\n");
}
