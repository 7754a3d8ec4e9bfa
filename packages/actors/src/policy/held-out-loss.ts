/**
 * The loss on held-out rows, of jobs that learn from answers: what the weights that a step makes say of rows that nobody trains on. A measurement: it
 * changes no weights, and rows that can not be read stop no step.
 */
import { hasCode, type Logger, type Prompt } from "@muster/base";
import type { GradientMesh } from "@muster/collectives";
import { answerIdsOf, type Task } from "@muster/data";
import { type GradientMemory, lossOf, type PolicyEngine, type ShardStats, type TrainSample } from "@muster/engine";
import { isSupervised, type JobConfig, type StepStats } from "@muster/protocol";

/** Held-out rows of a job, as a trainer reads them. */
export interface HeldOutRows {
  readonly task: Pick<Task, "evalPrompt" | "encode" | "stopTokenIds">;
  readonly logger: Logger;
}

/** What the loss is computed with: the candidate of a step, all of whose updates are done. */
export interface HeldOutOptions extends HeldOutRows {
  readonly engine: PolicyEngine;
  readonly mesh: Pick<GradientMesh, "epoch">;
  readonly config: JobConfig;
  /** Micro-shards of this rank. */
  readonly shards: readonly number[];
  /** Where the gradient of a micro-shard goes, which nobody sums: that of the last minibatch is used up. */
  readonly memoryOf: (shard: number) => GradientMemory;
  readonly signal: AbortSignal;
  readonly onPart: () => void;
}

/** Sums over answer tokens of held-out rows. */
export type HeldOutSum = NonNullable<StepStats["heldOut"]>;

/** How many held-out rows a job measures the loss on; 0 for none. Pure. */
export function heldOutRowsOf(config: Pick<JobConfig, "evaluation" | "training">): number {
  return isSupervised(config) ? (config.evaluation.lossRows ?? 0) : 0;
}

/** Whether the weights that a step makes are measured: as often as held-out prompts are answered, and the last ones. Pure. */
export function isHeldOutDue(step: number, config: Pick<JobConfig, "evaluation" | "training" | "steps">): boolean {
  // No step is the zeroth one of none: every 0 steps is never.
  return heldOutRowsOf(config) > 0 && (step === config.steps || step % config.evaluation.everySteps === 0);
}

/**
 * This rank's part of the loss. Rows go to micro-shards as samples do, and to an engine in as many at a time, so their number needs no memory.
 *
 * @param add - Adds figures up so that their sum does not depend on who computed which part.
 * @returns `null` where rows can not be read: the loss of some of them would be that of other rows.
 */
export async function heldOutLossOf(
  options: HeldOutOptions,
  add: (sum: HeldOutSum, part: ShardStats) => HeldOutSum,
): Promise<HeldOutSum | null> {
  const { engine, config, shards, memoryOf, mesh, signal, onPart } = options;
  const { microShards } = config.batch;
  const rows = heldOutRowsOf(config);
  const most = rowsAtOnce(config);
  let sum: HeldOutSum = { tokens: 0, lossSum: 0 };
  for (const shard of shards) {
    const own = Array.from({ length: Math.ceil((rows - shard) / microShards) }, (_, i) => shard + i * microShards);
    for (let from = 0; from < own.length; from += most) {
      const samples = await samplesOf(own.slice(from, from + most), options);
      signal.throwIfAborted();
      if (samples === null) return null;
      if (samples.length > 0) {
        const stats = await lossOn(samples, { engine, config, shard, epoch: mesh.epoch, out: memoryOf(shard), signal });
        sum = add(sum, stats);
      }
      onPart();
    }
  }
  return sum;
}

/** As many as a micro-shard of training has, which the engine has room for. */
function rowsAtOnce({ batch }: JobConfig): number {
  return Math.ceil(batch.groupsPerStep / batch.minibatches / batch.microShards);
}

async function lossOn(
  samples: readonly TrainSample[],
  {
    engine,
    config,
    ...place
  }: Pick<HeldOutOptions, "engine" | "config" | "signal"> & {
    readonly shard: number;
    readonly epoch: number;
    readonly out: GradientMemory;
  },
): Promise<ShardStats> {
  return await engine.accumulate(samples, {
    normalizer: samples.reduce((tokens, { logprobs }) => tokens + logprobs.length, 0),
    ...config.loss,
    ...(config.training && { loss: lossOf(config.training) }),
    temperature: config.sampling.temperature,
    ...place,
  });
}

/** The rows of these numbers with their answers. One that makes no prompt is left out, by every rank. */
async function samplesOf(
  rows: readonly number[],
  { task, config, logger }: HeldOutOptions,
): Promise<readonly TrainSample[] | null> {
  const found = await Promise.allSettled(
    rows.map(async (row) => sampleOf(await task.evalPrompt(row), task, config.sampling.maxNewTokens)),
  );
  const failed = found.find(
    (each) => each.status === "rejected" && !hasCode(each.reason, "MUSTER_ERR_PROMPT_INVALID"),
  ) as PromiseRejectedResult | undefined;
  if (failed) {
    logger.warn(
      { rows: rows.length, error: failed.reason },
      "held-out rows can not be read: their loss is not measured",
    );
    return null;
  }
  return found.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
}

function sampleOf(prompt: Prompt, task: HeldOutRows["task"], maxNewTokens: number): TrainSample {
  const answer = answerIdsOf(prompt, task, maxNewTokens);
  const tokens = new Int32Array(prompt.ids.length + answer.length);
  tokens.set(prompt.ids);
  tokens.set(answer, prompt.ids.length);
  return { tokens, promptLength: prompt.ids.length, logprobs: new Float32Array(answer.length), advantage: 1 };
}
