// The training of a job file in this one process: `node local.mjs <job file> <steps> [<key>=<value> …]`. Prints one line of JSON per step.

import { needsOfTask, taskOf } from "@muster/data";
import { embeddedEngines, trainLocally } from "@muster/engine/embedded";
import { rewardOf } from "@muster/engine/internal";
import { systemClock } from "@muster/runtime";
import { loadJob } from "@muster/runtime/config";

const [file = "", steps = "20", ...set] = process.argv.slice(2);
const { config } = loadJob({
  file,
  set,
  flags: { "job.steps": Number(steps) },
  describeTask: (name) => needsOfTask(taskOf(name)),
  engines: embeddedEngines,
});
if (config.weights.kind !== "folder")
  throw new Error(`the benchmark needs weights from a folder, not ${config.weights.kind}`);
const task = taskOf(config.task.name);
const { lrWarmupSteps: warmupSteps, lrFinalRatio: finalRatio, ...optimizer } = config.optimizer;

await trainLocally({
  task,
  reward: rewardOf(config.task.reward),
  folder: config.weights.path,
  seed: config.seed,
  steps: config.steps,
  ...config.batch,
  temperature: config.sampling.temperature,
  maxNewTokens: config.sampling.maxNewTokens,
  clip: config.loss,
  optimizer: { ...optimizer, warmupSteps, finalRatio },
  rewardTimeoutMs: config.timing.rewardMs,
  clock: systemClock(),
  signal: new AbortController().signal,
  onStep({ step, reward, tokens }) {
    const { user, system } = process.cpuUsage();
    process.stdout.write(
      `${JSON.stringify({ step, reward, tokens, atMs: performance.now(), cpuMs: (user + system) / 1000 })}\n`,
    );
  },
});
