/** How much time the promises of liveness leave, by the time-outs and the work of a job. */
import type { Allowance } from "@muster/check/internal";
import type { JobConfig } from "@muster/protocol";
import type { Scenario } from "../cluster/scenario.ts";
import { type Fault, isChange } from "../faults/fault.ts";

/** Faults that keep no controller from its work but by ending it. */
const simpleFaults: readonly Fault["kind"][] = [
  "kill",
  "gone",
  "kill-all",
  "drain",
  "slow",
  "clock-jump",
  "power-loss",
  "second-controller",
];

/** True when no fault keeps a controller from its work but by ending it. Pure. */
export function areSimple(faults: readonly Fault[]): boolean {
  return faults.every((fault) => isChange(fault) || simpleFaults.includes(fault.kind));
}

/** The floor of L1 (reliability 3). */
const steadyMs = 60_000;

/** A supervisor takes up to two seconds for a new process; the rest is to connect and to replay. */
const successionMs = 15_000;

/** Attempts that are waited for, where a group has more of them. */
const attemptsMax = 3;

/** What may have to be waited for: a lease or a step whose orders were lost on their way, and the work itself. Pure. */
export function allowanceOf({ config, work, faults }: Scenario): Allowance {
  const { leaseMs, stepMs, deadAfterMs, drainMs } = config.timing;
  const { limits, failure, health } = config;
  const batch = largestBatch(config, faults);
  const rounds = Math.ceil(batch.groupsPerStep / limits.chunkGroups);
  const sampleMs = rounds * work.responseMs * 6;
  // What hangs its holder hangs one after the other: each is found out, evicted and started again.
  const hangMs = (work.hangerRate ?? 0) > 0 ? failure.engineCrash.attempts * (2 * health.hungMaxMs + 15_000) : 0;
  const trainMs = batch.microShards * batch.minibatches * (work.shardMs + work.stageMs);
  return {
    progressMs: steadyMs + leaseMs + stepMs + sampleMs + trainMs + hangMs,
    promptMs: Math.min(attemptsMax, failure.engineCrash.attempts) * leaseMs + sampleMs + hangMs,
    membershipMs: steadyMs + deadAfterMs + drainMs,
    successionMs,
  };
}

/** The largest batch that a step may have, as an operator changes it. */
function largestBatch({ batch }: JobConfig, faults: readonly Fault[]): JobConfig["batch"] {
  const asked = faults.flatMap((fault) => (isChange(fault) ? [fault.command.body.settings] : []));
  return {
    ...batch,
    groupsPerStep: Math.max(batch.groupsPerStep, ...asked.map(({ groupsPerStep = 0 }) => groupsPerStep)),
    minibatches: Math.max(batch.minibatches, ...asked.map(({ minibatches = 0 }) => minibatches)),
  };
}
