/** Prompts that a task's module makes: each call has a time, and each answer is looked at, copied and turned into tokens. */
import { hasCode, messageOf, type Prompt, shownValue, type TaskModule, type TaskPrompt } from "@muster/base";
import { answerIdsOf } from "./answer-ids.ts";
import { errors } from "./errors.ts";
import type { ChatTokenizer } from "./hugging-face/tokenizer.ts";
import { lineOf } from "./import-module.ts";
import { promptOfRow } from "./row-prompt.ts";
import { lineOfField, type ModuleSource } from "./task-module.ts";

/** One call of a module. */
export interface ModuleCall {
  readonly name: "trainPrompt" | "evalPrompt";
  /** Which prompt, for errors. */
  readonly what: string;
  run(signal: AbortSignal): unknown;
}

/** Time for one prompt. */
const promptMs = 5_000;

/** Most characters of what a module returns for one prompt, as JSON. */
const rowCharactersMax = 4 * 2 ** 20;

/** How the calls of a module become prompts. @returns It throws MUSTER_ERR_TASK_PROMPT_FAILED, naming file, line, call and what is wrong */
export function modulePrompts(
  module: TaskModule,
  {
    path,
    source,
    tokenizer,
    answerMax,
  }: ModuleSource & {
    readonly tokenizer: ChatTokenizer;
    /** Longest answer in tokens, with its end, where answers are trained on. */
    readonly answerMax?: number;
  },
): (call: ModuleCall) => Promise<Prompt> {
  const tools = { vocab: tokenizer.vocab, encode: tokenizer.encode, decode: tokenizer.decode };
  return async (call) => {
    const failed = (reason: string, cause?: unknown): Error => {
      const line = (cause && lineOf(cause, path)) || lineOfField(source, call.name);
      return errors.TaskPromptFailed({ path: `${path}${line}`, call: `${call.name} ${call.what}`, reason }, cause);
    };
    const row = rowOf(await answerOf(call, failed), failed);
    if (answerMax !== undefined) checkAnswer(row, tokenizer, answerMax, failed);
    try {
      if (!module.encode) return fitted(plainPrompt(row, tokenizer), module, failed);
      const ids = idsOf(module.encode(row as TaskPrompt, tools), tokenizer.vocab);
      const answer = row.answer === undefined ? "" : String(row.answer);
      return fitted({ ids, text: tokenizer.decode(ids), answer, row }, module, failed);
    } catch (error) {
      if (hasCode(error, "MUSTER_ERR_TASK_PROMPT_FAILED")) throw error;
      throw failed(`returned ${shownValue(row.prompt)}, which makes no tokens: ${messageOf(error)}`, error);
    }
  };
}

type Failed = (reason: string, cause?: unknown) => Error;
type Row = Readonly<Record<string, unknown>>;

async function answerOf(call: ModuleCall, failed: Failed): Promise<unknown> {
  const late = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const error = failed(`did not end within ${promptMs} ms`);
      late.abort(error);
      reject(error);
    }, promptMs);
  });
  try {
    return await Promise.race([Promise.resolve().then(() => call.run(late.signal)), expired]);
  } catch (error) {
    if (hasCode(error, "MUSTER_ERR_TASK_PROMPT_FAILED")) throw error;
    throw failed(`threw: ${messageOf(error)}`, error);
  } finally {
    clearTimeout(timer);
  }
}

/** A copy of an answer, so that nobody can write to it later. */
function rowOf(answer: unknown, failed: Failed): Row {
  if (typeof answer !== "object" || answer === null || Array.isArray(answer))
    throw failed(`returned ${shownValue(answer)}; it must return an object such as { prompt: "1+1=", answer: "2" }`);
  const { prompt, answer: right } = answer as Row;
  if (typeof prompt !== "string" && !Array.isArray(prompt))
    throw failed(
      `returned prompt = ${shownValue(prompt)}; it must be text, or a list of messages with role and content`,
    );
  if (right !== undefined && !["string", "number", "boolean"].includes(typeof right))
    throw failed(`returned answer = ${shownValue(right)}; it must be text, a number or a boolean, or left out`);
  let text: string;
  try {
    text = JSON.stringify(answer);
  } catch (error) {
    throw failed(`returned what is no JSON: ${messageOf(error)}`);
  }
  if (text.length > rowCharactersMax)
    throw failed(`returned ${text.length} characters of JSON, more than ${rowCharactersMax}`);
  return JSON.parse(text) as Row;
}

/** Looks at an answer that is trained on. */
function checkAnswer({ answer = "" }: Row, tokenizer: ChatTokenizer, answerMax: number, failed: Failed): void {
  try {
    answerIdsOf({ answer: String(answer) }, tokenizer, answerMax);
  } catch (error) {
    throw failed(`returned answer = ${shownValue(answer)}: ${messageOf(error)}`, error);
  }
}

function plainPrompt(row: Row, tokenizer: ChatTokenizer): Prompt {
  const answerColumn = row.answer === undefined ? null : "answer";
  const tokensMax = Number.POSITIVE_INFINITY;
  return promptOfRow(row, tokenizer, {
    promptColumn: "prompt",
    answerColumn,
    chat: true,
    tokensMax,
    overlong: "refuse",
  });
}

function fitted(prompt: Prompt, { maxPromptTokens }: TaskModule, failed: Failed): Prompt {
  const { length } = prompt.ids;
  if (length <= maxPromptTokens) return prompt;
  throw failed(`returned a prompt of ${length} tokens, more than maxPromptTokens = ${maxPromptTokens}`);
}

function idsOf(encoded: unknown, vocab: number): Int32Array {
  const isList = Array.isArray(encoded) || (ArrayBuffer.isView(encoded) && !(encoded instanceof DataView));
  const list: readonly unknown[] = isList ? Array.from(encoded as ArrayLike<unknown>) : [];
  if (list.length === 0) throw new Error(`encode returned ${shownValue(encoded)}; it must be a list of token ids`);
  const odd = list.find((id) => !Number.isInteger(id) || Number(id) < 0 || Number(id) >= vocab);
  if (odd !== undefined)
    throw new Error(`encode returned token id ${shownValue(odd)}; it must be a whole number from 0 to ${vocab - 1}`);
  return Int32Array.from(list as readonly number[]);
}
