/** What a batch is, in numbers for people. A pure function of its groups, in the same order everywhere, so that its bits are the same everywhere. */
import type { BatchFigures, Trajectory, TrajectoryGroup } from "@muster/protocol";
import { hasSpread } from "./dapo.ts";

/** Counts a batch. Groups with fewer than two trajectories that are valid teach nothing: they count as groups only, as they do in receipts. */
export function batchFiguresOf(groups: readonly TrajectoryGroup[]): Omit<BatchFigures, "lr"> {
  const ordered = [...groups].sort((a, b) => a.index - b.index || a.attempt - b.attempt);
  const valid = ordered.flatMap(validOf);
  const rewards = valid.map(({ reward }) => reward);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length);
  return {
    groups: groups.length,
    evenGroups: groups.filter(isEven).length,
    trajectories: valid.length,
    truncated: valid.filter(({ status }) => status === "truncated").length,
    longest: valid.reduce((most, { logprobs }) => Math.max(most, logprobs.length), 0),
    rewardSquares: rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0),
    rewardLeast: rewards.reduce((least, reward) => Math.min(least, reward), rewards[0] ?? 0),
    rewardMost: rewards.reduce((most, reward) => Math.max(most, reward), rewards[0] ?? 0),
  };
}

function validOf({ trajectories }: TrajectoryGroup): readonly Trajectory[] {
  const valid = trajectories.filter(({ status }) => status !== "aborted");
  return valid.length < 2 ? [] : valid;
}

function isEven({ trajectories }: TrajectoryGroup): boolean {
  const rewards = trajectories.map(({ reward }) => reward);
  const valid = trajectories.map(({ status }) => status !== "aborted");
  return !hasSpread(rewards, valid);
}
