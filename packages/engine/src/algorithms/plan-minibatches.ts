/** Cuts the groups of one step into minibatches and micro-shards. A pure function of the groups: not of arrival, nor of who trains. */
import { randomOf, shuffled } from "@muster/base";
import type { TrajectoryGroup } from "@muster/protocol";
import type { TrainSample } from "../engine.ts";
import { advantagesOf } from "./grpo.ts";

/** What one optimizer update learns from. */
export interface Minibatch {
  /** Response tokens in the loss, over all shards: the divisor of the loss. */
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
}

/**
 * Plans one step: groups by index, advantages, members without advantage dropped, shuffled, cut.
 *
 * @returns At most `minibatches`, none of them empty; no minibatch at all when there is nothing to learn.
 */
export function planMinibatches(groups: readonly TrajectoryGroup[], options: PlanOptions): readonly Minibatch[] {
  const ordered = [...groups].sort((a, b) => a.index - b.index || a.attempt - b.attempt);
  const samples = shuffled(ordered.flatMap(samplesOf), randomOf(options.seed, options.step));
  const size = Math.ceil(samples.length / options.minibatches);
  const batches: Minibatch[] = [];
  for (let from = 0; from < samples.length; from += size) {
    const batch = samples.slice(from, from + size);
    batches.push({
      normalizer: batch.reduce((sum, sample) => sum + lossTokensOf(sample), 0),
      shards: Array.from({ length: options.microShards }, (_, shard) =>
        batch.filter((_, i) => i % options.microShards === shard),
      ),
    });
  }
  return batches;
}

/** Members with something to teach: valid, advantage not 0, at least one token in the loss. */
function samplesOf(group: TrajectoryGroup): TrainSample[] {
  const { trajectories } = group;
  const advantages = advantagesOf(
    trajectories.map((trajectory) => trajectory.reward),
    trajectories.map((trajectory) => trajectory.status !== "aborted"),
  );
  return trajectories.flatMap(({ tokens, promptLength, logprobs, lossMask }, i) => {
    const advantage = advantages[i] ?? 0;
    const whole = { tokens, promptLength, logprobs, advantage };
    const sample: TrainSample = lossMask.every((bit) => bit === 1) ? whole : { ...whole, lossMask };
    return advantage === 0 || lossTokensOf(sample) === 0 ? [] : [sample];
  });
}

function lossTokensOf(sample: TrainSample): number {
  return sample.lossMask?.reduce((sum, bit) => sum + bit, 0) ?? sample.logprobs.length;
}
