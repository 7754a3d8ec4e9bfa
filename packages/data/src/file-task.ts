/** A task whose prompts are rows of files. Which row a group gets follows from seed, step and index alone. */
import { createHash } from "node:crypto";
import { hasCode, messageOf, type Prompt } from "@muster/base";
import { type JobConfig, positionOf, promptsTask, spansOf } from "@muster/protocol";
import { answerIdsOf } from "./answer-ids.ts";
import { shuffledRow } from "./epoch-order.ts";
import { errors } from "./errors.ts";
import { type ChatTokenizer, openTokenizer } from "./hugging-face/tokenizer.ts";
import { promptOfRow, type RowOptions } from "./row-prompt.ts";
import { openSplit, type Split } from "./rows/open-rows.ts";
import type { Task } from "./task.ts";

/** Where prompts come from, before anybody has looked into the files. */
export type PromptFiles = Omit<NonNullable<JobConfig["prompts"]>, "digest" | "vocab" | "tokenizerDigest">;

/** What of a job decides over its prompts, besides the files. */
export interface PromptPlan {
  /** Groups of a step, where a key does not say its position. */
  readonly groupsPerStep: number;
  /** Longest response, in tokens. */
  readonly maxNewTokens: number;
  /** Whether answers are trained on: a row without one makes no prompt then. */
  readonly isSupervised?: boolean;
}

/** How many rows are checked between two looks at whatever else the process has to do. */
const rowsBetween = 1_000;

/** A task on files, opened. */
export interface FileTask extends Task {
  /** Of all rows and how they become prompts: equal for two hosts that have the same. */
  readonly digest: string;
  readonly trainRows: number;
  /** 0 where nothing is held out. */
  readonly heldOutRows: number;
  /**
   * Makes every prompt once.
   *
   * @param progress - Hears now and then how many rows are done, and of how many.
   * @throws MUSTER_ERR_PROMPT_INVALID for the first that makes none
   */
  check(progress?: (done: number, rows: number) => void): Promise<void>;
}

/**
 * Opens the files of a job.
 *
 * @throws MUSTER_ERR_PROMPTS_UNREADABLE, MUSTER_ERR_TOKENIZER_INVALID
 */
export async function openFileTask(files: PromptFiles, plan: PromptPlan): Promise<FileTask> {
  const tokenizer = await openTokenizer(files.tokenizer);
  const train = await openSplit(files.train, files.trainSplit);
  const heldOut =
    files.heldOut === null ? null : await openSplit(files.heldOut, files.heldOutSplit).catch(closing(train));
  const make = promptMaker(tokenizer, { ...files, tokensMax: files.maxTokens }, plan);
  const { encode, encodePlain: _, renderChat, ...rest } = tokenizer;
  return {
    ...rest,
    encode,
    ...(renderChat ? { encodeChat: (messages, tools) => encode(renderChat(messages, tools)) } : {}),
    name: promptsTask,
    maxTokens: files.maxTokens + plan.maxNewTokens,
    digest: digestOf([train.digest, heldOut?.digest ?? "", tokenizer.tokenizerDigest, JSON.stringify(rulesOf(files))]),
    trainRows: train.count,
    heldOutRows: heldOut?.count ?? 0,
    trainPrompt: (key) => {
      const { seed } = key;
      const position = key.position ?? positionOf(spansOf(plan.groupsPerStep), key);
      const row = files.shuffle ? shuffledRow({ position, rows: train.count, seed }) : position % train.count;
      return make(train, row);
    },
    evalPrompt: async (index) => await make(heldOut ?? train, index % (heldOut ?? train).count),
    check: async (progress = () => {}) => {
      const splits = [train, ...(heldOut ? [heldOut] : [])];
      const rows = splits.reduce((sum, { count }) => sum + count, 0);
      let done = 0;
      for (const split of splits)
        for (let row = 0; row < split.count; row++) {
          await make(split, row);
          if (++done % rowsBetween !== 0) continue;
          progress(done, rows);
          // A million rows take minutes, in which the process is to hear its signals.
          await new Promise(setImmediate);
        }
    },
    close: async () => void (await Promise.all([train.close(), heldOut?.close()])),
  };
}

function promptMaker(
  tokenizer: ChatTokenizer,
  options: RowOptions,
  { isSupervised, maxNewTokens }: PromptPlan,
): (split: Split, index: number) => Promise<Prompt> {
  return async (split, index) => {
    const row = await split.row(index);
    try {
      const prompt = promptOfRow(row, tokenizer, options);
      if (isSupervised) answerIdsOf(prompt, tokenizer, maxNewTokens);
      return prompt;
    } catch (error) {
      // No fault of the row.
      if (hasCode(error, "MUSTER_ERR_TEMPLATE_THREAD")) throw error;
      throw errors.PromptInvalid({ ...split.placeOf(index), reason: messageOf(error) }, error);
    }
  };
}

/** What decides how a row becomes a prompt, but for where the files lie. */
function rulesOf({ train: _, heldOut: __, tokenizer: ___, ...rules }: PromptFiles): object {
  return rules;
}

function digestOf(parts: readonly string[]): string {
  return createHash("sha256").update(parts.join("\n")).digest("hex");
}

function closing(split: Split): (error: unknown) => Promise<never> {
  return async (error) => {
    await split.close();
    throw error;
  };
}
