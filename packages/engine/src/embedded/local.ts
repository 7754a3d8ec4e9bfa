/** The whole training loop in one process: the same engines, plan and updates as a cluster, without the cluster. The yardstick for both. */
import { type Clock, numberOfAnswer, TreeFold } from "@muster/base";
import type { Task } from "@muster/data";
import { isSupervised, type Training } from "@muster/protocol";
import { lossOf } from "../algorithms/loss-needs.ts";
import { type Minibatch, planMinibatches } from "../algorithms/plan-minibatches.ts";
import { referenceLogprobsOf } from "../algorithms/reference-logprobs.ts";
import { type LearningRate, learningRateAt } from "../algorithms/schedules.ts";
import { givenAnswers } from "../collect/given-answer.ts";
import { collectGroups } from "../collect-group.ts";
import type { OptimizerOptions, PolicyEngine, Reward, RolloutEngine } from "../engine.ts";
import { errors } from "../errors.ts";
import { gradientIn } from "../gradient-memory.ts";
import { loadHfFolder } from "../hf-folder.ts";
import { inlineWeights } from "../inline-weights.ts";
import { copyOf } from "../section-bytes.ts";
import { createEmbeddedPolicyEngine } from "./policy-engine.ts";
import { createEmbeddedRolloutEngine } from "./rollout-engine.ts";

/** A training job in one process. */
export interface LocalOptions {
  readonly task: Task;
  readonly reward: Reward;
  /** Hugging Face folder to start from. */
  readonly folder: string;
  readonly seed: number;
  readonly steps: number;
  readonly groupsPerStep: number;
  readonly groupSize: number;
  readonly minibatches: number;
  readonly microShards: number;
  readonly temperature: number;
  readonly clip: { readonly clipLow: number; readonly clipHigh: number };
  /** How a batch becomes a loss. Default: GRPO with nothing added. The reference policy is that of `folder`. */
  readonly training?: Training;
  readonly optimizer: OptimizerOptions & LearningRate;
  /** Longest response in tokens. Default: what the context holds. */
  readonly maxNewTokens?: number;
  readonly rewardTimeoutMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onStep?: (report: StepReport) => void;
}

/** What one step did. */
export interface StepReport {
  /** Counted from 1; also the weight version after it. */
  readonly step: number;
  /** Mean over all trajectories of the step. */
  readonly reward: number;
  /** Optimizer updates that were applied. */
  readonly updates: number;
  readonly gradNorm: number;
  readonly tokens: number;
  readonly clipped: number;
}

/** Trains. @returns Reports of all steps and the final weights section. */
export async function trainLocally(
  options: LocalOptions,
): Promise<{ readonly reports: readonly StepReport[]; readonly weights: Uint8Array }> {
  const { model } = await loadHfFolder(options.folder);
  const hasReference = (options.training?.klCoefficient ?? 0) > 0;
  const policy = createEmbeddedPolicyEngine({ model, hasReference });
  const rollout = createEmbeddedRolloutEngine({ model });
  const reports: StepReport[] = [];
  try {
    const start = { kind: "folder", path: options.folder } as const;
    await policy.initialize(start);
    if (hasReference) await policy.openReference(start);
    for (let step = 1; step <= options.steps; step++) {
      await rollout.updateWeights(inlineWeights(step - 1, copyOf(policy.state().weights)));
      const report = await trainStep(policy, rollout, { ...options, step });
      reports.push(report);
      options.onStep?.(report);
    }
    return { reports, weights: copyOf(policy.state().weights) };
  } finally {
    await Promise.all([policy.close(), rollout.close()]);
  }
}

async function trainStep(
  policy: PolicyEngine,
  rollout: RolloutEngine,
  options: LocalOptions & { readonly step: number },
): Promise<StepReport> {
  const { task, seed, step } = options;
  const groups = await collectGroups({
    ...options,
    engine: rollout,
    ...(isSupervised(options) && { generate: givenAnswers(task), generateTimeoutMs: options.rewardTimeoutMs }),
    version: step - 1,
    prompts: await Promise.all(
      Array.from({ length: options.groupsPerStep }, async (_, index) => ({
        index,
        attempt: 0,
        prompt: await task.trainPrompt({ seed, step, index }),
      })),
    ),
    sampling: {
      temperature: options.temperature,
      maxNewTokens: options.maxNewTokens ?? task.maxTokens,
      stopTokenIds: task.stopTokenIds,
    },
  });
  const rewards = groups.flatMap((group) => group.trajectories.map((trajectory) => trajectory.reward));
  policy.begin();
  const totals = { updates: 0, gradNorm: 0, tokens: 0, clipped: 0 };
  const maxNewTokens = options.maxNewTokens ?? task.maxTokens;
  const reference = await referenceLogprobsOf(policy, groups, options);
  for (const minibatch of planMinibatches(groups, { ...options, maxNewTokens, reference })) {
    const update = await applyMinibatch(policy, minibatch, options);
    totals.updates += update.finite ? 1 : 0;
    totals.gradNorm = update.gradNorm;
    totals.tokens += update.tokens;
    totals.clipped += update.clipped;
  }
  policy.promote();
  return { step, reward: rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length, ...totals };
}

/** Sums the micro-shards along their tree, as the data plane does, and stages one update. */
async function applyMinibatch(
  policy: PolicyEngine,
  minibatch: Minibatch,
  options: LocalOptions & { readonly step: number },
): Promise<{ readonly finite: boolean; readonly gradNorm: number; readonly tokens: number; readonly clipped: number }> {
  const { optimizer, clip, signal, step, temperature, training } = options;
  const size = policy.info().gradientElements;
  const sums = new TreeFold(added);
  let tokens = 0;
  let clipped = 0;
  for (const shard of minibatch.shards) {
    const out = new Float32Array(size);
    const stats = await policy.accumulate(shard, {
      normalizer: minibatch.normalizer,
      temperature,
      ...clip,
      ...(training && { loss: lossOf(training) }),
      out: gradientIn(out),
      signal,
    });
    sums.push(out);
    tokens += stats.tokens;
    clipped += stats.clipped;
  }
  const staged = await policy.stage(gradientIn(sums.sum() ?? new Float32Array(size)), {
    ...optimizer,
    lr: learningRateAt(step, { steps: options.steps, ...optimizer }),
  });
  return { ...staged, tokens, clipped };
}

/** Adds a gradient to another one, in place. */
function added(sum: Float32Array, gradient: Float32Array): Float32Array {
  for (let k = 0; k < sum.length; k++) sum[k] = sum[k]! + gradient[k]!;
  return sum;
}

/**
 * Share of held-out prompts answered right.
 *
 * @param options - `temperature` 0 takes the likeliest answer; prompts are `evalPrompt(0 … count − 1)`.
 * @returns Mean reward, 0 … 1 for `exact-match`.
 */
export async function evaluate(
  engine: RolloutEngine,
  options: {
    readonly task: Task;
    readonly reward: Reward;
    readonly count: number;
    readonly temperature: number;
    readonly signal: AbortSignal;
  },
): Promise<number> {
  const { task, reward, signal } = options;
  const sampling = { temperature: options.temperature, maxNewTokens: task.maxTokens, stopTokenIds: task.stopTokenIds };
  const prompts = await Promise.all(Array.from({ length: options.count }, (_, index) => task.evalPrompt(index)));
  const requests = prompts.map(({ ids }, index) => {
    return { requestId: `eval.${index}`, promptIds: ids, n: 1, sampling, seed: index };
  });
  const rows = await engine.generate(requests, signal);
  let sum = 0;
  for (const [index, prompt] of prompts.entries()) {
    const generated = rows[index]?.[0];
    if (!generated) throw errors.TrajectoryInvalid({ from: "the engine", reason: "it is missing" });
    const { responseIds, finish } = generated;
    const input = { prompt, responseIds, responseText: task.decode(responseIds), finish };
    sum += numberOfAnswer(await reward.score(input, signal));
  }
  return sum / prompts.length;
}
