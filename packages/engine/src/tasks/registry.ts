/** Tasks and rewards by name. */
import { createHash } from "node:crypto";
import type { Reward, Task } from "../engine.ts";
import { errors } from "../errors.ts";
import type { ModelNeeds } from "../registry/adapter.ts";
import { addition } from "./addition.ts";
import { dates } from "./dates.ts";

const tasks = new Map([dates, addition].map((task) => [task.name, task]));

const exactMatch: Reward = {
  name: "exact-match",
  isBuiltIn: true,
  score: async ({ prompt, responseText, finish }) =>
    finish === "stop" && responseText === `${prompt.answer}$` ? 1 : 0,
};

const rewards = new Map([exactMatch].map((reward) => [reward.name, reward]));

/** The task of this name: `dates` or `addition`. @throws MUSTER_ERR_TASK_UNKNOWN naming the known ones. */
export function taskOf(name: string): Task {
  const task = tasks.get(name);
  if (!task) throw errors.TaskUnknown({ name, known: [...tasks.keys()].join(", ") });
  return task;
}

/** What a task asks of a model. Pure. */
export function needsOfTask({ vocabulary, maxTokens }: Pick<Task, "vocabulary" | "maxTokens">): ModelNeeds {
  const tokenizer = `characters-${createHash("sha256").update(vocabulary).digest("hex").slice(0, 32)}`;
  return { vocab: vocabulary.length, maxContext: maxTokens, tokenizer };
}

/** The reward of this name: `exact-match` is 1 for the right answer followed by the end token, otherwise 0. @throws MUSTER_ERR_REWARD_UNKNOWN */
export function rewardOf(name: string): Reward {
  const reward = rewards.get(name);
  if (!reward) throw errors.RewardUnknown({ name, known: [...rewards.keys()].join(", ") });
  return reward;
}
