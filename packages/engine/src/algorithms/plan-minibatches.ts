/** Cuts the groups of one step into minibatches and micro-shards. A pure function of the groups: not of arrival, nor of who trains. */
import { randomOf, shuffled } from "@muster/base";
import { type Training, type Trajectory, type TrajectoryGroup, trainingDefaults } from "@muster/protocol";
import type { TrainSample } from "../engine.ts";
import { algorithmOf } from "./algorithm-of.ts";
import { hasSpread } from "./dapo.ts";
import { type ReferenceLogprobs, returnsOf, shapedReward } from "./returns.ts";

/** What one optimizer update learns from. */
export interface Minibatch {
  /** Divisor of the loss, over all shards: response tokens, responses, or tokens that they could have had. */
  readonly normalizer: number;
  /** Fixed gradient micro-shards; their gradients are summed in this order. Some may be empty. */
  readonly shards: readonly (readonly TrainSample[])[];
}

/** Options of {@link planMinibatches}. */
export interface PlanOptions {
  readonly seed: number;
  readonly step: number;
  readonly minibatches: number;
  /** Shards of each minibatch; sample i goes to shard i mod `microShards`. */
  readonly microShards: number;
  /** Default: GRPO with nothing added. */
  readonly training?: Training | undefined;
  /** Longest response in tokens; for what counts by it. */
  readonly maxNewTokens?: number | undefined;
  /** Of the responses under the reference policy, where a divergence is taken off the reward. */
  readonly reference?: ReferenceLogprobs | undefined;
}

/**
 * Plans one step: groups by index, advantages, members without advantage dropped, shuffled, cut.
 *
 * @returns At most `minibatches`, none of them empty; no minibatch at all when there is nothing to learn.
 */
export function planMinibatches(groups: readonly TrajectoryGroup[], options: PlanOptions): readonly Minibatch[] {
  const { training = trainingDefaults } = options;
  const ordered = [...groups].sort((a, b) => a.index - b.index || a.attempt - b.attempt);
  const samples = shuffled(samplesOf(chosen(ordered, training), options), randomOf(options.seed, options.step));
  const size = Math.ceil(samples.length / options.minibatches);
  const batches: Minibatch[] = [];
  for (let from = 0; from < samples.length; from += size) {
    const batch = samples.slice(from, from + size);
    batches.push({
      normalizer: normalizerOf(batch, options),
      shards: Array.from({ length: options.microShards }, (_, shard) =>
        batch.filter((_, i) => i % options.microShards === shard),
      ),
    });
  }
  return batches;
}

/** Dynamic sampling: the first groups that have a spread, where more are sampled than are trained on. */
function chosen(ordered: readonly TrajectoryGroup[], { trainGroups }: Training): readonly TrajectoryGroup[] {
  if (trainGroups === 0) return ordered;
  const teaches = ({ trajectories }: TrajectoryGroup): boolean =>
    hasSpread(
      trajectories.map(({ reward }) => reward),
      trajectories.map(isValid),
    );
  return ordered.filter(teaches).slice(0, trainGroups);
}

/** Members with something to teach: valid, an advantage or a term besides it, at least one token in the loss. */
function samplesOf(groups: readonly TrajectoryGroup[], options: PlanOptions): readonly TrainSample[] {
  const { training = trainingDefaults } = options;
  const { ofGroup, ofBatch } = algorithmOf(training.algorithm);
  const isTaught = training.entropyCoefficient > 0 || (training.klCoefficient > 0 && training.klIn === "loss");
  const samples = ofGroup
    ? groups.flatMap(({ trajectories }) => {
        const rewards = trajectories.map((trajectory) => shapedReward(trajectory, options));
        const advantages = ofGroup(rewards, trajectories.map(isValid));
        return trajectories.flatMap((trajectory, i) =>
          isValid(trajectory) ? sampleOf(trajectory, advantages[i] ?? 0) : [],
        );
      })
    : ofBatch
      ? batchSamples(groups, ofBatch, options)
      : [];
  const weigh = (sample: TrainSample): TrainSample =>
    training.aggregation === "sequence" ? { ...sample, weight: 1 / lossTokensOf(sample) } : sample;
  return samples
    .filter((sample) => (isTaught || sample.advantage !== 0 || sample.advantages) && lossTokensOf(sample) > 0)
    .map(weigh);
}

function batchSamples(
  groups: readonly TrajectoryGroup[],
  ofBatch: (returns: readonly (readonly number[])[]) => number[][],
  options: PlanOptions,
): readonly TrainSample[] {
  const valid = groups.flatMap(({ trajectories }) => trajectories.filter(isValid));
  const advantages = ofBatch(valid.map((trajectory) => returnsOf(trajectory, options)));
  return valid.flatMap((trajectory, i) => {
    const ofTokens = advantages[i] ?? [];
    const sample = sampleOf(trajectory, ofTokens[0] ?? 0);
    if (ofTokens.every((advantage) => advantage === sample.advantage)) return sample;
    // Tokens outside of the loss have none.
    const spread = new Float32Array(trajectory.lossMask.length);
    let next = 0;
    trajectory.lossMask.forEach((bit, t) => {
      if (bit === 1) spread[t] = ofTokens[next++] ?? 0;
    });
    return { ...sample, advantages: spread };
  });
}

function sampleOf({ tokens, promptLength, logprobs, lossMask }: Trajectory, advantage: number): TrainSample {
  const whole = { tokens, promptLength, logprobs, advantage };
  return lossMask.every((bit) => bit === 1) ? whole : { ...whole, lossMask };
}

const isValid = ({ status }: Trajectory): boolean => status !== "aborted";

function normalizerOf(batch: readonly TrainSample[], options: PlanOptions): number {
  const { training = trainingDefaults, maxNewTokens = 1 } = options;
  if (training.aggregation === "token") return batch.reduce((sum, sample) => sum + lossTokensOf(sample), 0);
  return training.aggregation === "budget" ? batch.length * maxNewTokens : batch.length;
}

function lossTokensOf(sample: TrainSample): number {
  return sample.lossMask?.reduce((sum, bit) => sum + bit, 0) ?? sample.logprobs.length;
}
