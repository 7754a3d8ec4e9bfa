/** What people read of runs: sums, and everything that is needed to look into a failure. Pure. */
import { formatDuration } from "@muster/base";
import type { CanaryResult } from "./canaries/run-canaries.ts";
import type { RunManyResult } from "./seed/run-many.ts";
import type { RunResult } from "./seed/run-scenario.ts";

/** A failing run: its seed, shape, faults and last events, and the command that runs it again. */
export function failureText(result: RunResult): string {
  const { scenario, violations, lines, hash } = result;
  const { seed, profile, config, work, faults } = scenario;
  return [
    `seed ${seed}, profile ${profile}, log hash ${hash}`,
    ...violations.map(({ invariant, detail, atMs }) => `  ${invariant} at ${formatDuration(atMs)}: ${detail}`),
    `  shape: ${JSON.stringify({ ...config.replicas, mode: config.mode, steps: config.steps, batch: config.batch })}`,
    `  timing: ${JSON.stringify(config.timing)}`,
    `  work: ${JSON.stringify(work)}`,
    ...faults.map((fault) => `  fault: ${JSON.stringify(fault)}`),
    "  last events:",
    ...lines.map((line) => `  ${line}`),
    `  again: muster sim --profile ${profile} --seed ${seed}`,
  ].join("\n");
}

/** The sums of many runs. */
export function summaryText(result: RunManyResult): string {
  const { profile, firstSeed, seeds, failed, virtualMs, realMs, faults } = result;
  const injected = Object.values(faults).reduce((sum, count) => sum + count, 0);
  const kinds = Object.entries(faults).sort(([, a], [, b]) => b - a);
  const last = firstSeed + seeds - 1;
  return [
    `${seeds} seeds of profile ${profile} (${firstSeed} to ${last}) in ${formatDuration(realMs)}`,
    `virtual time    ${formatDuration(virtualMs)} (${result.nodeHours.toFixed(1)} node-hours), ${ratioText(virtualMs, realMs)} real time`,
    `events          ${result.events}, trajectories ${result.trajectories}`,
    `faults          ${injected}${kinds.length > 0 ? `: ${kinds.map(([name, count]) => `${name} ${count}`).join(", ")}` : ""}`,
    `checked         ${result.compared} runs against their quiet run, ${result.repeated} repeated for their hash`,
    failed.length === 0
      ? "violations      none"
      : `violations      ${failed.length}: seeds ${failed.map(({ scenario }) => scenario.seed).join(", ")}`,
  ].join("\n");
}

/** One line for a canary. */
export function canaryText({ name, says, caughtBy, seeds }: CanaryResult): string {
  const how = caughtBy === null ? `NOT SEEN in ${seeds} seeds` : `${caughtBy} after ${seeds} seeds`;
  return `${name.padEnd(28)} ${how.padEnd(24)} ${says}`;
}

function ratioText(virtualMs: number, realMs: number): string {
  return `${Math.round(virtualMs / Math.max(1, realMs))} times`;
}
