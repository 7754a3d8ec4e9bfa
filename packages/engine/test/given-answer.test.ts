/** Supervised fine-tuning: the answers of the data become trajectories, and no engine is asked. */
import { taskOf } from "@muster/data";
import { fromGroupsBatch, toGroupsBatch } from "@muster/protocol";
import { expect, it } from "vitest";
import { collectGroups, givenAnswers, type Reward, type RolloutEngine } from "../src/index.ts";
import { clock, quiet } from "./rollout-fixture.ts";

const task = taskOf("addition");
const refused = async (): Promise<never> => {
  throw new Error("nobody draws, and nobody judges");
};
const engine = {
  weightVersion: () => 5,
  info: () => ({ kind: "none", vocab: task.vocab, maxContext: task.maxTokens }),
  generate: refused,
} as unknown as RolloutEngine;
const reward: Reward = { name: "none", score: refused };

const collect = (prompts: Parameters<typeof collectGroups>[0]["prompts"], maxNewTokens = task.maxTokens) =>
  collectGroups({
    ...{ engine, reward, task, generate: givenAnswers(task), prompts, groupSize: 1, seed: 1, step: 3, version: 5 },
    sampling: { temperature: 1, maxNewTokens, stopTokenIds: task.stopTokenIds },
    ...{ rewardTimeoutMs: 10_000, generateTimeoutMs: 10_000, clock, signal: quiet() },
  });
const promptOf = (index: number) => ({ index, attempt: 0, prompt: task.trainPrompt({ seed: 1, step: 3, index }) });

it("the response of a prompt is its answer and the token that ends it, of weights that were held, without log-probabilities and reward", async () => {
  const prompts = [promptOf(0), promptOf(1)];
  const groups = await collect(prompts);
  groups.forEach(({ trajectories: [only, ...others] }, i) => {
    const { ids, answer } = prompts[i]!.prompt;
    const response = task.encode(answer + task.decode(Int32Array.of(task.stopTokenIds[0]!)));
    expect(others).toEqual([]);
    expect(only).toMatchObject({ promptLength: ids.length, status: "completed", reward: 0 });
    expect(only?.tokens).toEqual(Int32Array.of(...ids, ...response));
    expect(only?.logprobs).toEqual(new Float32Array(response.length));
    expect(only?.segments).toEqual([{ version: 5, from: 0, to: response.length }]);
  });
  expect(fromGroupsBatch(toGroupsBatch(groups))).toEqual(groups);
});

it("a prompt without an answer, or with one that is too long, costs its own group and says why", async () => {
  const { prompt } = promptOf(0);
  const silent = { index: 1, attempt: 0, prompt: { ...prompt, answer: "" } };
  const long = { index: 2, attempt: 0, prompt: { ...prompt, answer: "1111" } };
  const groups = await collect([{ index: 0, attempt: 0, prompt: { ...prompt, answer: "1" } }, silent, long], 3);
  const ends = groups.map(({ trajectories: [only] }) => only?.error?.message ?? only?.status);
  expect(ends).toEqual([
    "completed",
    expect.stringContaining("its answer is empty"),
    expect.stringContaining("its answer has 5 tokens with its end, more than sampling.max_new_tokens = 3"),
  ]);
});
