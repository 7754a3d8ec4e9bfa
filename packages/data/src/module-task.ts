/** A task whose prompts a module of the job makes. Which prompt a group gets follows from seed, step and index alone; that is tried when it opens. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Prompt, TaskModule } from "@muster/base";
import { placeAt, positionOf, spansOf } from "@muster/protocol";
import { errors } from "./errors.ts";
import { importModule } from "./import-module.ts";
import { type ModuleCall, modulePrompts } from "./module-prompts.ts";
import { tokenizerOfModule } from "./module-tokenizer.ts";
import { evalStream, trainStream } from "./prompt-streams.ts";
import type { PromptKey, Task } from "./task.ts";
import { checkTaskModule, lineOfField, type ModuleSource } from "./task-module.ts";

/** What of a job decides over the prompts of a module. */
export interface ModulePlan {
  readonly seed: number;
  /** Groups of a step, where a key does not say its position. */
  readonly groupsPerStep: number;
  /** Longest response, in tokens. */
  readonly maxNewTokens: number;
  /** Whether answers are trained on: a prompt without one is a fault then. */
  readonly isSupervised?: boolean;
}

/** A module's task, opened. */
export interface ModuleTask extends Task {
  /** Of the module's file, its tokenizer and its first prompts: equal for two hosts that have the same. */
  readonly digest: string;
  readonly hasEvalPrompt: boolean;
  readonly hasReward: boolean;
  /** Asks for the prompts of two steps, at most, and for so many held-out ones, twice each. @throws MUSTER_ERR_TASK_PROMPT_FAILED */
  check(evalPrompts: number): Promise<void>;
}

/** Prompts that are in the digest. */
const probes = 32;

/** Most training prompts that a check asks for. */
const checkedMax = 256;

/**
 * Opens the module of a task.
 *
 * @throws MUSTER_ERR_MODULE_UNLOADABLE, MUSTER_ERR_TASK_MODULE_INVALID, MUSTER_ERR_TASK_PROMPT_FAILED, MUSTER_ERR_TOKENIZER_INVALID
 */
export async function openModuleTask(path: string, plan: ModulePlan): Promise<ModuleTask> {
  const loaded = await importModule(path);
  const source = await readFile(path, "utf8");
  const module = checkTaskModule(loaded, { path, source });
  const tokenizer = await tokenizerOfModule(module, path);
  const make = modulePrompts(module, { path, source, tokenizer, ...answersIn(plan) });
  const trainPrompt = (key: PromptKey): Promise<Prompt> => make(trainCall(module, key, plan));
  const first = keysOf(plan, probes);
  const made = await Promise.all(first.map(trainPrompt));
  const rules = [module.maxPromptTokens, module.encode !== undefined];
  const { encodePlain: _, renderChat, ...texts } = tokenizer;
  return {
    ...texts,
    ...(renderChat ? { encodeChat: (messages, tools) => texts.encode(renderChat(messages, tools)) } : {}),
    name: path,
    maxTokens: module.maxPromptTokens + plan.maxNewTokens,
    digest: digestOf([source, tokenizer.tokenizerDigest, JSON.stringify(rules), ...made.map(textOf)]),
    hasEvalPrompt: module.evalPrompt !== undefined,
    hasReward: module.reward !== undefined,
    trainPrompt,
    evalPrompt: (index) => make(evalCall(module, index)),
    check: async (evalPrompts) => {
      const trainCalls = keysOf(plan, checkedMax).map((key) => () => trainCall(module, key, plan));
      await askTwice(trainCalls, make, { path, source });
      if (!module.evalPrompt) return;
      const evalCalls = Array.from({ length: evalPrompts }, (_, index) => () => evalCall(module, index));
      await askTwice(evalCalls, make, { path, source });
    },
    close: async () => {},
  };
}

/** Answers that are trained on must fit. */
function answersIn({ isSupervised, maxNewTokens }: ModulePlan): { readonly answerMax?: number } {
  return isSupervised ? { answerMax: maxNewTokens } : {};
}

/** Keys of the first two steps, at most so many. */
function keysOf({ seed, groupsPerStep }: ModulePlan, most: number): readonly PromptKey[] {
  return Array.from({ length: Math.min(most, 2 * groupsPerStep) }, (_, i) => ({
    seed,
    ...placeAt(spansOf(groupsPerStep), i),
  }));
}

function trainCall(module: TaskModule, key: PromptKey, { groupsPerStep }: ModulePlan): ModuleCall {
  const { seed, step, index } = key;
  const position = key.position ?? positionOf(spansOf(groupsPerStep), key);
  return {
    name: "trainPrompt",
    what: `of step ${step}, index ${index}`,
    run: (signal) => module.trainPrompt({ seed, step, index, position, random: trainStream(key), signal }),
  };
}

function evalCall(module: TaskModule, index: number): ModuleCall {
  return {
    name: "evalPrompt",
    what: `of index ${index}`,
    run: (signal) => module.evalPrompt?.({ index, random: evalStream(index), signal }),
  };
}

/** A second time in the other order: what counts its calls, or draws from somewhere else, gives another prompt then. */
async function askTwice(
  calls: readonly (() => ModuleCall)[],
  make: (call: ModuleCall) => Promise<Prompt>,
  { path, source }: ModuleSource,
): Promise<void> {
  const made: string[] = [];
  for (const call of calls) made.push(textOf(await make(call())));
  for (const [at, call] of [...calls.entries()].toReversed()) {
    const again = call();
    if (textOf(await make(again)) === made[at]) continue;
    const key = again.name === "trainPrompt" ? "seed, step, index and position" : "index";
    throw errors.TaskPromptFailed({
      path: `${path}${lineOfField(source, again.name)}`,
      call: `${again.name} ${again.what}`,
      reason: `returned another prompt when it was asked again; it must depend on ${key} alone: draw from the key's random, not from Math.random, and keep no count`,
    });
  }
}

function textOf({ ids, row }: Prompt): string {
  return JSON.stringify([Array.from(ids), row]);
}

function digestOf(parts: readonly string[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(`${part.length} ${part}\n`);
  return hash.digest("hex");
}
