// Runs GRPO in this one process from a shipped warm start and prints the curve.
// Usage: node packages/engine/scripts/train-local.mjs <task> [--seed <n>] [--steps <n>] [--algorithm <name>] [--training <JSON>]
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { taskOf } from "@muster/data";
import { algorithmDefaults, trainingDefaults } from "@muster/protocol";
import { createEmbeddedRolloutEngine, evaluate, loadHfFolder, trainLocally } from "../dist/embedded/index.js";
import { inlineWeights, rewardOf } from "../dist/internal.js";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: "string", default: "1" },
    steps: { type: "string", default: "250" },
    folder: { type: "string" },
    algorithm: { type: "string", default: "grpo" },
    // What is added to the algorithm, such as {"klCoefficient":0.05}.
    training: { type: "string", default: "{}" },
    lr: { type: "string", default: "5e-4" },
    "final-ratio": { type: "string", default: "0.1" },
    "max-new-tokens": { type: "string", default: "16" },
  },
});
const brought = algorithmDefaults[values.algorithm];
if (!brought)
  throw new Error(`--algorithm ${values.algorithm}: it is one of ${Object.keys(algorithmDefaults).join(", ")}`);
const { clipLow, clipHigh, minibatches, aggregation, overlongShare } = brought;
const training = {
  ...trainingDefaults,
  ...{ algorithm: values.algorithm, aggregation },
  overlongTokens: Math.floor(overlongShare * Number(values["max-new-tokens"])),
  ...JSON.parse(values.training),
};
const task = taskOf(positionals[0] ?? "dates");
const reward = rewardOf("exact-match");
const folder = values.folder ?? fileURLToPath(new URL(`../../../jobs/warm-start/${task.name}`, import.meta.url));
const signal = new AbortController().signal;
const { model, weights: before } = await loadHfFolder(folder);

async function measure(label, version, data) {
  await engine.updateWeights(inlineWeights(version, data));
  const held = { task, reward, count: 512, signal };
  const greedy = await evaluate(engine, { ...held, temperature: 0 });
  const sampled = await evaluate(engine, { ...held, temperature: 1 });
  console.log(`${label}: held-out exact match ${greedy.toFixed(3)} greedy, ${sampled.toFixed(3)} sampled`);
}

const clock = {
  now: () => performance.now(),
  after(delayMs, run) {
    const timer = setTimeout(run, delayMs);
    return () => clearTimeout(timer);
  },
};
const engine = createEmbeddedRolloutEngine({ model });
await measure("before", 0, before);
const started = performance.now();
const seconds = () => ((performance.now() - started) / 1000).toFixed(1);
let recent = [];
const { reports, weights } = await trainLocally({
  task,
  reward,
  folder,
  seed: Number(values.seed),
  steps: Number(values.steps),
  groupsPerStep: 128,
  groupSize: 8,
  minibatches,
  training,
  microShards: 8,
  temperature: 1,
  clip: { clipLow, clipHigh },
  optimizer: {
    lr: Number(values.lr),
    finalRatio: Number(values["final-ratio"]),
    warmupSteps: 5,
    beta1: 0.9,
    beta2: 0.99,
    epsilon: 1e-8,
    weightDecay: 0,
    clipNorm: 1,
  },
  maxNewTokens: Number(values["max-new-tokens"]),
  rewardTimeoutMs: 5000,
  clock,
  signal,
  onStep: ({ step, reward: mean, tokens, clipped, gradNorm }) => {
    recent = [...recent.slice(-9), mean];
    if (step % 50 && step !== 10) return;
    const curve = recent.reduce((sum, value) => sum + value, 0) / recent.length;
    const share = (clipped / Math.max(1, tokens)).toFixed(4);
    console.log(
      `step ${step}: reward ${curve.toFixed(3)} (last 10), clipped ${share}, norm ${gradNorm.toFixed(2)}, ${seconds()} s`,
    );
  },
});
const last = reports.slice(-10).reduce((sum, report) => sum + report.reward, 0) / Math.min(10, reports.length);
await measure("after", reports.length, weights);
const digest = createHash("sha256").update(weights).digest("hex").slice(0, 16);
console.log(
  `${task.name} ${values.algorithm} seed ${values.seed}: reward ${last.toFixed(3)}, ${seconds()} s, weights ${digest}, ${engine.info().build}`,
);
