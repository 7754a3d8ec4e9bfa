/** The random streams that prompts are drawn from: each a function of its key alone. */
import { type Random, randomOf } from "@muster/base";
import type { PromptKey } from "./task.ts";

/** Held-out prompts are the same under every `job.seed`. */
const evaluationSeed = 999;

/** The stream of a training prompt. */
export function trainStream({ seed, step, index }: PromptKey): Random {
  return randomOf(seed, step, index);
}

/** The stream of held-out prompt number `index`. */
export function evalStream(index: number): Random {
  return randomOf(evaluationSeed, index);
}
