/**
 * DAPO (arXiv 2503.14476): the raised upper clip (equation 10) and the loss over tokens (equation 12) are those of GRPO here. What it adds:
 * dynamic sampling (equation 11), which keeps the groups that have a spread, and the soft punishment of over-long responses (equation 13).
 */
import type { Algorithm } from "./algorithm.ts";
import { advantagesOf, grpo } from "./grpo.ts";

/** Whether a group has a spread of rewards: some answers are better than others. */
export function hasSpread(rewards: readonly number[], valid: readonly boolean[]): boolean {
  return advantagesOf(rewards, valid).some((advantage) => advantage !== 0);
}

/**
 * What a response of `length` tokens loses: nothing up to `longest − buffer`, then more with each token, 1 at `longest`. Equation 13, with the
 * sign turned.
 *
 * @param buffer - Tokens; 0: nothing is lost at any length.
 */
export function overlongLoss(length: number, { longest, buffer }: { longest: number; buffer: number }): number {
  if (buffer === 0) return 0;
  return Math.min(1, Math.max(0, length - (longest - buffer)) / buffer);
}

/** DAPO. */
export const dapo: Algorithm = { ...grpo, name: "dapo" };
