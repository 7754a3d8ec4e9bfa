/**
 * How fast a job of ten processes is simulated: processor time for a second of virtual time, against the millisecond that is the aim. No faults, all
 * checkers, one core. How much happens in a second is what it costs: three paces of the same job.
 */
import { medianOf } from "@muster/base";
import { drawScenario, runScenario } from "@muster/sim";
import { spreadOf } from "./lib/stats.mjs";

export const about = "a second of a simulated job of ten processes, against a millisecond";

/** Mean time of a response; a shard of gradients takes 0.4 of it. */
const paces = [
  { responseMs: 2_000, steps: 60, name: "steps of 9 s" },
  { responseMs: 6_000, steps: 40, name: "steps of 25 s" },
  { responseMs: 30_000, steps: 20, name: "steps of two minutes" },
];
const seeds = 10;
/** The first seeds run code that is not compiled yet. */
const warmUp = 4;

export async function* run() {
  for (const pace of paces) {
    const costs = [];
    for (let seed = 1; seed <= warmUp + seeds; seed++) {
      const cost = await costOf(jobOf(seed, pace));
      if (seed > warmUp) costs.push(cost);
    }
    const median = medianOf(costs);
    yield {
      name: pace.name,
      unit: "ms of processor time",
      against: "1,000 times real time",
      ours: median,
      reference: 1,
      aim: 1,
      ratio: median,
      spread: spreadOf(costs),
      note: `${Math.round(1_000 / median)} times real time`,
    };
  }
}

/** @param {import("@muster/sim").Scenario} scenario @returns {Promise<number>} Milliseconds of processor time for a virtual second. */
async function costOf(scenario) {
  const before = process.cpuUsage();
  const { virtualMs, violations } = await runScenario(scenario);
  const { user, system } = process.cpuUsage(before);
  const [violation] = violations;
  if (violation) throw new Error(`seed ${scenario.seed}: ${violation.detail}`);
  return (user + system) / virtualMs;
}

/**
 * A controller, 3 policy, 5 rollout and a checkpoint replica; 40 responses a step, a checkpoint every fifth.
 *
 * @param {number} seed @param {(typeof paces)[number]} pace @returns {import("@muster/sim").Scenario}
 */
function jobOf(seed, { responseMs, steps }) {
  const drawn = drawScenario(seed, "quiet");
  const { config, work } = drawn;
  const waitMs = Math.max(60_000, 20 * responseMs);
  const { timing } = drawScenario(2, "quiet").config;
  return {
    ...drawn,
    limitMs: steps * waitMs,
    work: { ...work, responseMs, shardMs: 0.4 * responseMs, poisonRate: 0, killerRate: 0, overflowRate: 0 },
    config: {
      ...config,
      steps,
      mode: "sync",
      stalenessMax: 0,
      replicas: { policy: 3, rollout: 5, checkpoint: 1 },
      initReplicas: { policy: 3, rollout: 5 },
      batch: { groupsPerStep: 10, groupSize: 4, minibatches: 1, microShards: 6 },
      limits: { ...config.limits, leaseGroupsMax: 4, leasesPerRollout: 2, chunkGroups: 1 },
      evaluation: { everySteps: 0, prompts: 0 },
      checkpoint: { ...config.checkpoint, everySteps: 5 },
      timing: { ...timing, leaseMs: waitMs, stepMs: waitMs, collectiveMs: Math.max(30_000, 4 * responseMs) },
      health: { ...config.health, hungMinMs: waitMs, hungMaxMs: 2 * waitMs, progressMs: 4 * waitMs },
    },
  };
}
