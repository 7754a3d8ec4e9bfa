/** Rewards by name. */
import type { Reward } from "../engine.ts";
import { errors } from "../errors.ts";

const exactMatch: Reward = {
  name: "exact-match",
  isBounded: true,
  // Characters tell their end by `$`; a tokenizer of files leaves its end of text out.
  score: async ({ prompt, responseText, finish }) =>
    finish === "stop" && responseText === (prompt.row ? prompt.answer : `${prompt.answer}$`) ? 1 : 0,
};

const rewards = new Map([exactMatch].map((reward) => [reward.name, reward]));

/** The reward of this name: `exact-match` is 1 for the right answer followed by the end token, otherwise 0. @throws MUSTER_ERR_REWARD_UNKNOWN */
export function rewardOf(name: string): Reward {
  const reward = rewards.get(name);
  if (!reward) throw errors.RewardUnknown({ name, known: [...rewards.keys()].join(", ") });
  return reward;
}
