/** Supervised fine-tuning: the response of a prompt is its right answer. The engine draws nothing. */
import type { Prompt, SamplingOptions } from "@muster/base";
import { answerIdsOf, type Task } from "@muster/data";
import type { GenerateFunction } from "./generate-function.ts";

/** Gives the answers of a task's prompts as its responses: nobody draws them, so their log-probabilities are 0, and nobody judges them, so is their reward. */
export function givenAnswers(task: Task): GenerateFunction {
  return async ({ prompt, sampling }: { readonly prompt: Prompt; readonly sampling: SamplingOptions }) => {
    const responseIds = answerIdsOf(prompt, task, sampling.maxNewTokens);
    return { responseIds, logprobs: new Float32Array(responseIds.length), reward: 0 };
  };
}
