/** What a batch is, in numbers for people. A pure function of its groups, in the same order everywhere, so that its bits are the same everywhere. */
import {
  type BatchFigures,
  type ComponentFigures,
  stepComponentsMax,
  type Training,
  type Trajectory,
  type TrajectoryGroup,
  validMinOf,
} from "@muster/protocol";
import { hasSpread } from "./dapo.ts";
import { exponential } from "./exponential.ts";
import { divergenceOf } from "./kl.ts";
import type { ReferenceLogprobs } from "./returns.ts";

/** Counts a batch. Groups with fewer valid trajectories than teach something count as groups only, as they do in receipts. */
export function batchFiguresOf(groups: readonly TrajectoryGroup[], training?: Training): Omit<BatchFigures, "lr"> {
  const valid = inOrder(groups).flatMap((group) => validOf(group, training));
  const rewards = spreadOf(valid.map(({ reward }) => reward));
  return {
    groups: groups.length,
    evenGroups: groups.filter(isEven).length,
    trajectories: valid.length,
    truncated: valid.filter(({ status }) => status === "truncated").length,
    longest: valid.reduce((most, { logprobs }) => Math.max(most, logprobs.length), 0),
    rewardSquares: rewards.squares,
    rewardLeast: rewards.least,
    rewardMost: rewards.most,
    ...componentsOf(valid),
  };
}

/**
 * KL(sampled ‖ reference) of the tokens in the loss, where a divergence is taken off the reward: the mean of the estimator k3, in nats. A function of the
 * batch and of what the reference says of it, summed in the same order everywhere.
 */
export function referenceKlOf(groups: readonly TrajectoryGroup[], reference: ReferenceLogprobs): number {
  let [sum, tokens] = [0, 0];
  for (const trajectory of inOrder(groups).flatMap((group) => validOf(group))) {
    const expected = reference.get(trajectory);
    trajectory.logprobs.forEach((logprob, t) => {
      if (trajectory.lossMask[t] !== 1 || !expected) return;
      sum += divergenceOf("k3", logprob - expected[t]!, exponential).value;
      tokens += 1;
    });
  }
  return sum / Math.max(1, tokens);
}

const inOrder = (groups: readonly TrajectoryGroup[]): readonly TrajectoryGroup[] =>
  [...groups].sort((a, b) => a.index - b.index || a.attempt - b.attempt);

/** What the parts of rewards are, by name in order: those that have them count, and the rest does not. */
function componentsOf(valid: readonly Trajectory[]): Pick<BatchFigures, "components" | "componentsMore"> {
  const byName = new Map<string, number[]>();
  for (const { components = [] } of valid)
    for (const { name, value } of components) {
      const values = byName.get(name);
      if (values) values.push(value);
      else byName.set(name, [value]);
    }
  if (byName.size === 0) return {};
  const sorted = [...byName].sort(([a], [b]) => (a < b ? -1 : 1));
  const components = sorted
    .slice(0, stepComponentsMax)
    .map(([name, values]): ComponentFigures => ({ name, count: values.length, ...spreadOf(values) }));
  return {
    components,
    ...(sorted.length > components.length ? { componentsMore: sorted.length - components.length } : {}),
  };
}

/** Mean, sum of squared distances from it, and the ends of the range; 0 of nothing. */
function spreadOf(values: readonly number[]): Pick<ComponentFigures, "mean" | "squares" | "least" | "most"> {
  const [first = 0] = values;
  const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  return {
    mean,
    squares: values.reduce((sum, value) => sum + (value - mean) ** 2, 0),
    least: values.reduce((least, value) => Math.min(least, value), first),
    most: values.reduce((most, value) => Math.max(most, value), first),
  };
}

function validOf({ trajectories }: TrajectoryGroup, training?: Training): readonly Trajectory[] {
  const valid = trajectories.filter(({ status }) => status !== "aborted");
  return valid.length < validMinOf({ training }) ? [] : valid;
}

function isEven({ trajectories }: TrajectoryGroup): boolean {
  const rewards = trajectories.map(({ reward }) => reward);
  const valid = trajectories.map(({ status }) => status !== "aborted");
  return !hasSpread(rewards, valid);
}
