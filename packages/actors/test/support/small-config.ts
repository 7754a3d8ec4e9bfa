/** A job that ends in a second, and what training in one process makes of it. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { digestOf } from "@muster/collectives/internal";
import { needsOfTask, taskOf } from "@muster/data";
import { embeddedEngines as engines, trainLocally } from "@muster/engine/embedded";
import { rewardOf } from "@muster/engine/internal";
import type { JobConfig } from "@muster/protocol";
import { loadJob } from "@muster/runtime/config";
import { clock } from "./environment.ts";

const jobFile = fileURLToPath(new URL("../../../../jobs/dates.toml", import.meta.url));

/** Three steps of 4 groups of 4; verdicts about silence are far away, because a busy host must not change what a test sees. */
const settings = [
  "job.steps=3",
  "batch.groups_per_step=4",
  "batch.group_size=4",
  "batch.micro_shards=4",
  "limits.chunk_groups=1",
  "limits.lease_groups=2",
  "evaluation.prompts=8",
  "checkpoint.every_steps=1",
  "checkpoint.keep=9",
  "timing.tick=20ms",
  "timing.command=2s",
  "timing.pull=3s",
  "timing.suspect_after=30s",
  "timing.dead_after=39s",
  "timing.drain=5s",
  "health.interval=500ms",
  "health.timeout=300ms",
];

/** The configuration of a small job that keeps its files in `directory`. */
export function smallConfig(directory: string, set: readonly string[] = []): JobConfig {
  const folders = [
    `checkpoint.directory=${join(directory, "checkpoints")}`,
    `data.socket_directory=${join(directory, "sockets")}`,
  ];
  return loadJob({ file: jobFile, env: {}, set: [...settings, ...folders, ...set], describeTask, engines }).config;
}

const describeTask = (name: string) => needsOfTask(taskOf(name));

/** Digest of the weights that one process gets which does everything itself. */
export async function digestOfLocalTraining(config: JobConfig): Promise<string> {
  const { task, weights, batch, sampling, loss, optimizer, timing, seed, steps } = config;
  if (weights.kind !== "folder") throw new Error(`weights come from ${weights.kind}`);
  const trained = await trainLocally({
    task: taskOf(task.name),
    reward: rewardOf(task.reward),
    folder: weights.path,
    seed,
    steps,
    ...batch,
    ...sampling,
    clip: loss,
    optimizer: { ...optimizer, warmupSteps: optimizer.lrWarmupSteps, finalRatio: optimizer.lrFinalRatio },
    rewardTimeoutMs: timing.rewardMs,
    clock,
    signal: new AbortController().signal,
  });
  return digestOf(trained.weights);
}
