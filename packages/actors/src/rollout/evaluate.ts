/** Evaluation on held-out prompts, greedily. What cannot be judged in time counts as not solved, and holds nobody up. */

import { type Clock, numberOfAnswer, type Prompt, withDeadline } from "@muster/base";
import type { Task } from "@muster/data";
import type { Generated, Reward, RolloutEngine } from "@muster/engine";
import type { Chunk, RolloutEvent } from "@muster/machines";
import type { JobConfig, WorkItem } from "@muster/protocol";

/** What evaluates. */
export interface Evaluator {
  readonly engine: RolloutEngine;
  readonly task: Task;
  readonly reward: Reward;
  readonly config: Pick<JobConfig, "timing">;
  readonly clock: Clock;
}

/** Evaluates the held-out prompts of one item. @throws The signal's reason, or what the engine throws for the whole call. */
export async function evaluate(
  evaluator: Evaluator,
  chunk: Chunk,
  item: Extract<WorkItem, { purpose: "eval" }>,
  signal: AbortSignal,
): Promise<RolloutEvent> {
  const { engine, task } = evaluator;
  const found = await Promise.allSettled(
    Array.from({ length: item.count }, async (_, offset) => await task.evalPrompt(item.from + offset)),
  );
  // A row that makes no prompt is not solved.
  const prompts = found.flatMap((each) => (each.status === "fulfilled" ? each.value : []));
  const sampling = { temperature: 0, maxNewTokens: task.maxTokens, stopTokenIds: task.stopTokenIds };
  const requests = prompts.map((prompt, i) => ({
    requestId: `${chunk.id}.${i}`,
    promptIds: prompt.ids,
    n: 1,
    sampling,
    seed: item.from + i,
  }));
  const rows = await engine.generate(requests, signal);
  const solved = await judge(
    prompts.map((prompt, i) => ({ prompt, generated: rows[i]?.[0] })),
    evaluator,
    signal,
  );
  return {
    type: "evals.scored",
    chunkId: chunk.id,
    leaseId: chunk.leaseId,
    version: chunk.version,
    chunk: item.chunk,
    prompts: item.count,
    correct: solved,
  };
}

interface Answer {
  readonly prompt: Prompt;
  readonly generated: Generated | undefined;
}

/** Judges all answers at once, within the time of one reward, or that which a reward sets itself. @returns How many are right. */
async function judge(
  answers: readonly Answer[],
  { task, reward, config, clock }: Evaluator,
  signal: AbortSignal,
): Promise<number> {
  let solved = 0;
  const judgeOne = async ({ prompt, generated }: Answer, stop: AbortSignal): Promise<void> => {
    if (!generated) return;
    const { responseIds, finish } = generated;
    const input = { prompt, responseIds, responseText: task.decode(responseIds), finish };
    if (numberOfAnswer(await reward.score(input, AbortSignal.any([stop]))) >= 1) solved += 1;
  };
  const deadline = { what: "judging held-out prompts", timeoutMs: config.timing.rewardMs, clock, signal };
  const all = (stop: AbortSignal) => Promise.allSettled(answers.map((answer) => judgeOne(answer, stop)));
  if (reward.isBounded) await all(signal);
  else await withDeadline(all, deadline).catch(() => signal.throwIfAborted());
  signal.throwIfAborted();
  return solved;
}
