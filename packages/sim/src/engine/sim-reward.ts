/** Rewards that are a pure function of prompt and response; some prompts are poison, in every run alike. */
import { mixSeed } from "@muster/base";
import type { Reward, RewardInput } from "@muster/engine";
import type { Failpoints } from "../faults/failpoints.ts";
import type { SimProcess } from "../world/process.ts";
import { tokensHash } from "./arithmetic.ts";

/** How often a response cannot be judged. */
export interface RewardModel {
  readonly poisonRate: number;
  readonly judgeMs: number;
}

/** The reward of one process. */
export function simReward(process: SimProcess, failpoints: Failpoints, model: RewardModel): Reward {
  return {
    name: "sim",
    score: async (input, signal) => {
      // Only whole processes fail here: a judge that fails by itself is poison, and that must be the same in every run.
      if (failpoints.hit(process, "rollout.reward") && process.isDead) await new Promise<never>(() => {});
      if (model.judgeMs > 0) await process.sleep(model.judgeMs, signal);
      const luck = drawOf(input);
      // Poison comes in three kinds: the judge throws, says nonsense, or never answers.
      if (luck < model.poisonRate * 0.5) throw new RangeError("the judge can not read this response");
      if (luck < model.poisonRate * 0.8) return Number.NaN;
      if (luck < model.poisonRate) return await new Promise<never>(() => {});
      return Math.round(luck * 8) / 8;
    },
  };
}

function drawOf({ prompt, responseIds }: RewardInput): number {
  return mixSeed(tokensHash(prompt.ids), tokensHash(responseIds)) / 2 ** 32;
}
