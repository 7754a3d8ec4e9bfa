/**
 * CISPO (MiniMax-M1, arXiv 2506.13585, equations 4 and 5): the importance ratio is clipped and is a weight, through which no gradient goes. So
 * every token teaches, also where the clip holds. The advantage is GRPO's.
 */
import { type Algorithm, perToken } from "./algorithm.ts";
import { advantagesOf } from "./grpo.ts";

/** CISPO: the term of a token is sg(clip(r)) · A · log π. */
export const cispo: Algorithm = {
  name: "cispo",
  ofGroup: advantagesOf,
  ofBatch: null,
  objective: perToken(({ logprob, ratio, advantage, clip }) => {
    const free = ratio();
    const held = Math.min(Math.max(free, 1 - clip.clipLow), 1 + clip.clipHigh);
    return { value: held * advantage * logprob, slope: held * advantage, clipped: free !== held };
  }),
  ratios: "token",
};
