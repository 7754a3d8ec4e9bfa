/**
 * GRPO (DeepSeekMath, arXiv 2402.03300, equation 3) with the token-level loss and the raised upper clip of DAPO
 * (arXiv 2503.14476, equations 8 and 10). With `training.aggregation = "sequence"` it is the paper's own mean over responses. The KL term is
 * `training.kl_coefficient`. Pure; only +, −, ·, / and √, so that the bits are the same everywhere.
 */
import { type Algorithm, type Clip, perToken, type TokenTerm } from "./algorithm.ts";

/**
 * Advantages of one group: (r − mean) / (std + 1e-4), over the valid members only.
 *
 * @param valid - False for placeholders: they neither shift the baseline nor get an advantage.
 * @returns One number per member; all 0 with fewer than two valid members or a spread below 1e-6.
 */
export function advantagesOf(rewards: readonly number[], valid: readonly boolean[]): number[] {
  const kept = rewards.filter((_, i) => valid[i]);
  const none = rewards.map(() => 0);
  if (kept.length < 2) return none;
  const mean = kept.reduce((sum, reward) => sum + reward, 0) / kept.length;
  const variance = kept.reduce((sum, reward) => sum + (reward - mean) * (reward - mean), 0) / kept.length;
  const deviation = Math.sqrt(variance);
  if (!(deviation >= 1e-6)) return none;
  return rewards.map((reward, i) => (valid[i] ? (reward - mean) / (deviation + 1e-4) : 0));
}

/** Surrogate of a token with importance ratio r = π(token) / π_old(token): min(r · A, clip(r) · A), whose slope is r · A or 0 where the clip holds. */
export function surrogateOf(ratio: number, advantage: number, clip: Clip): TokenTerm {
  const low = 1 - clip.clipLow;
  const high = 1 + clip.clipHigh;
  if (advantage > 0 && ratio > high) return { value: high * advantage, slope: 0, clipped: true };
  if (advantage < 0 && ratio < low) return { value: low * advantage, slope: 0, clipped: true };
  return { value: ratio * advantage, slope: ratio * advantage, clipped: false };
}

/** GRPO: advantages against the mean and the spread of the group, the clipped surrogate of each token. */
export const grpo: Algorithm = {
  name: "grpo",
  ofGroup: advantagesOf,
  ofBatch: null,
  objective: perToken(({ ratio, advantage, clip }) => surrogateOf(ratio(), advantage, clip)),
  ratios: "token",
};
