/**
 * GRPO (DeepSeekMath, arXiv 2402.03300, equation 3) with the token-level loss and the raised upper clip of DAPO
 * (arXiv 2503.14476, equations 8 and 10), without a KL term. Pure; only +, −, ·, / and √, so that the bits are the same everywhere.
 */

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

/** The clipped surrogate of one token. */
export interface Surrogate {
  /** min(r · A, clip(r) · A); to be maximised. */
  readonly value: number;
  /** Its derivative by the token's log-probability: r · A, or 0 where the clip holds. */
  readonly slope: number;
  readonly clipped: boolean;
}

/** Surrogate of a token with importance ratio r = π(token) / π_old(token). */
export function surrogateOf(
  ratio: number,
  advantage: number,
  clip: { readonly clipLow: number; readonly clipHigh: number },
): Surrogate {
  const low = 1 - clip.clipLow;
  const high = 1 + clip.clipHigh;
  if (advantage > 0 && ratio > high) return { value: high * advantage, slope: 0, clipped: true };
  if (advantage < 0 && ratio < low) return { value: low * advantage, slope: 0, clipped: true };
  return { value: ratio * advantage, slope: ratio * advantage, clipped: false };
}

/** How the learning rate goes over a run. */
export interface LearningRate {
  readonly lr: number;
  /** Steps over which it rises from 0. */
  readonly warmupSteps: number;
  /** It falls linearly to this share of `lr` at step `steps`; 1 or absent: it stays. */
  readonly finalRatio?: number;
  /** Length of the run; needed when it falls. */
  readonly steps?: number;
}

/** Learning rate of a step, counted from 1: rises linearly over the first `warmupSteps`, then stays or falls linearly. */
export function learningRateAt(step: number, { lr, warmupSteps, finalRatio = 1, steps = step }: LearningRate): number {
  if (step < warmupSteps) return (lr * step) / warmupSteps;
  const span = Math.max(1, steps - warmupSteps);
  return lr * (1 - (1 - finalRatio) * Math.min(1, (step - warmupSteps) / span));
}
