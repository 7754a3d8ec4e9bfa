/** What a response earns once its length and its divergence from the reference policy are taken off. Pure. */
import { type Training, type Trajectory, trainingDefaults } from "@muster/protocol";
import { overlongLoss } from "./dapo.ts";
import { exponential } from "./exponential.ts";
import { divergenceOf } from "./kl.ts";

/** Log-probability of each response token under the reference policy. */
export type ReferenceLogprobs = ReadonlyMap<Trajectory, ArrayLike<number>>;

/** What shapes rewards. */
interface Shaping {
  readonly training?: Training | undefined;
  readonly maxNewTokens?: number | undefined;
  readonly reference?: ReferenceLogprobs | undefined;
}

/** Reward of a response, with its whole divergence and what its length costs taken off. */
export function shapedReward(trajectory: Trajectory, shaping: Shaping): number {
  const divergences = divergencesOf(trajectory, shaping);
  return divergences.reduce((rest, divergence) => rest - divergence, lengthReward(trajectory, shaping));
}

/** Return of each token in the loss (arXiv 2501.03262): the reward, with the divergence from that token on taken off. */
export function returnsOf(trajectory: Trajectory, shaping: Shaping): number[] {
  const reward = lengthReward(trajectory, shaping);
  const inLoss = trajectory.lossMask.filter((bit) => bit === 1).length;
  const divergences = divergencesOf(trajectory, shaping);
  if (divergences.length === 0) return new Array<number>(inLoss).fill(reward);
  const returns = new Array<number>(inLoss);
  let value = reward;
  for (let t = inLoss - 1; t >= 0; t--) {
    value -= divergences[t] ?? 0;
    returns[t] = value;
  }
  return returns;
}

function lengthReward({ reward, logprobs }: Trajectory, { training = trainingDefaults, maxNewTokens = 0 }: Shaping) {
  const { overlongTokens: buffer, overlongPenalty } = training;
  return buffer === 0
    ? reward
    : reward - overlongPenalty * overlongLoss(logprobs.length, { longest: maxNewTokens, buffer });
}

/** β · KL of each token in the loss, under the policy that drew it; none where the reward has no part in it. */
function divergencesOf(trajectory: Trajectory, { training = trainingDefaults, reference }: Shaping): readonly number[] {
  const { klCoefficient, klEstimator, klIn } = training;
  const expected = reference?.get(trajectory);
  if (klCoefficient === 0 || klIn !== "reward" || !expected) return [];
  const { logprobs, lossMask } = trajectory;
  return [...logprobs].flatMap((logprob, t) => {
    if (lossMask[t] !== 1) return [];
    return klCoefficient * divergenceOf(klEstimator, logprob - expected[t]!, exponential).value;
  });
}
