/**
 * Dr. GRPO (arXiv 2503.20783, section 3.2 and listing 1): GRPO without the two divisors that bias it. The advantage is r − mean, not divided by
 * the spread of the group, and the terms of a response are divided by the tokens that it could have had, not by those that it has.
 */
import type { Algorithm } from "./algorithm.ts";
import { grpo } from "./grpo.ts";

/** r − mean of the valid members; all 0 with fewer than two of them, or without a spread. */
function centredAdvantages(rewards: readonly number[], valid: readonly boolean[]): number[] {
  const kept = rewards.filter((_, i) => valid[i]);
  const none = rewards.map(() => 0);
  if (kept.length < 2 || kept.every((reward) => reward === kept[0])) return none;
  const mean = kept.reduce((sum, reward) => sum + reward, 0) / kept.length;
  return rewards.map((reward, i) => (valid[i] ? reward - mean : 0));
}

/** Dr. GRPO. */
export const drGrpo: Algorithm = { ...grpo, name: "dr_grpo", ofGroup: centredAdvantages };
