/**
 * Supervised fine-tuning: the response of a prompt is its right answer, and the loss is the cross-entropy of its tokens given those before them, averaged
 * over all answer tokens of a minibatch (Ouyang et al., arXiv 2203.02155, section 3.5; Radford et al., 2018, section 3.2). Tokens of the prompt are not in the loss.
 */
import { type Algorithm, perToken } from "./algorithm.ts";

/** Supervised fine-tuning: the term of a token is log π, whatever a reward would say. */
export const sft: Algorithm = {
  name: "sft",
  ofGroup: (rewards, valid) => rewards.map((_, i) => (valid[i] ? 1 : 0)),
  ofBatch: null,
  objective: perToken(({ logprob, advantage }) => ({
    ...{ value: advantage * logprob, slope: advantage },
    clipped: false,
  })),
  ratios: "token",
};
