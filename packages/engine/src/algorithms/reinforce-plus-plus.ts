/**
 * REINFORCE++ (arXiv 2501.03262): no baseline of the prompt. The return of a token is the reward minus what the response diverges from the
 * reference policy from that token on, and the advantage is that return, normalised over all tokens of the global batch. The objective is the
 * clipped surrogate.
 */
import type { Algorithm, BatchAdvantages } from "./algorithm.ts";
import { grpo } from "./grpo.ts";

/** (return − mean) / √(variance + 1e-8) over all tokens; all 0 without a spread. */
const normalisedReturns: BatchAdvantages = (returns) => {
  const all = returns.flat();
  const mean = all.reduce((sum, value) => sum + value, 0) / Math.max(1, all.length);
  const variance = all.reduce((sum, value) => sum + (value - mean) * (value - mean), 0) / Math.max(1, all.length);
  if (!(variance >= 1e-12)) return returns.map((row) => row.map(() => 0));
  const deviation = Math.sqrt(variance + 1e-8);
  return returns.map((row) => row.map((value) => (value - mean) / deviation));
};

/** REINFORCE++. */
export const reinforcePlusPlus: Algorithm = {
  ...grpo,
  ...{ name: "reinforce++", ofGroup: null, ofBatch: normalisedReturns },
};
