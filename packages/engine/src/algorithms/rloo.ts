/**
 * RLOO (arXiv 2402.14740, section 3.2; Kool, van Hoof and Welling, 2019): REINFORCE whose baseline for a response is the mean reward of the others
 * of its group. There is no importance ratio: a step is one update, and stale tokens need `training.stale_correction`.
 */
import { type Algorithm, perToken } from "./algorithm.ts";

/** r minus the mean of the other valid members; all 0 with fewer than two of them, or without a spread. */
function leaveOneOut(rewards: readonly number[], valid: readonly boolean[]): number[] {
  const kept = rewards.filter((_, i) => valid[i]);
  const none = rewards.map(() => 0);
  if (kept.length < 2 || kept.every((reward) => reward === kept[0])) return none;
  const sum = kept.reduce((all, reward) => all + reward, 0);
  return rewards.map((reward, i) => (valid[i] ? reward - (sum - reward) / (kept.length - 1) : 0));
}

/** RLOO: the term of a token is A · log π. */
export const rloo: Algorithm = {
  name: "rloo",
  ofGroup: leaveOneOut,
  ofBatch: null,
  objective: perToken(({ logprob, advantage }) => ({
    ...{ value: advantage * logprob, slope: advantage },
    clipped: false,
  })),
  ratios: "token",
};
