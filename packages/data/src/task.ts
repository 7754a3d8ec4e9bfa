/** What a job asks, as interfaces: where prompts come from, and how text becomes tokens. */
import type { ChatMessage, ChatTool, Prompt, Random, ToolParserName } from "@muster/base";

/** Which training prompt: group `index` of a step, counted from 0. */
export interface PromptKey {
  readonly seed: number;
  readonly step: number;
  readonly index: number;
  /** Prompts before it since the beginning of the job; absent where all steps are of the size that the job began with. */
  readonly position?: number;
}

/** Text and tokens. */
export interface Tokenizer {
  /** Number of token ids. */
  readonly vocab: number;
  /** Two tokenizers of one digest make the same tokens. At most 64 characters. */
  readonly tokenizerDigest: string;
  /** Tokens that end a response; the first is the usual one. At least one. */
  readonly stopTokenIds: readonly number[];
  /** @throws MUSTER_ERR_TASK_TEXT_INVALID for what has no tokens. */
  encode(text: string): Int32Array;
  decode(ids: Int32Array): string;
  /** Tokens of a conversation that the assistant's turn follows, where there is a chat template. @throws when the template refuses it */
  encodeChat?(messages: readonly ChatMessage[], tools?: readonly ChatTool[]): Int32Array;
  /** The form in which the model writes calls of tools; `null` where the template writes no tools, or the form is not known. */
  readonly toolParser?: ToolParserName | null;
}

/** Prompts by number: pure functions of their key, whoever asks and however often, so that a run in mode `sync` is one, too. */
export interface PromptSource {
  /** Never a held-out case. @throws MUSTER_ERR_PROMPT_INVALID for one that makes no prompt; the others are not concerned. */
  trainPrompt(key: PromptKey): Prompt | Promise<Prompt>;
  /** Held-out case number `index`. @throws as {@link trainPrompt} */
  evalPrompt(index: number): Prompt | Promise<Prompt>;
}

/** What a job's samplers work on. */
export interface Task extends Tokenizer, PromptSource {
  readonly name: string;
  /** Context length that it needs: prompt and response together, in tokens. */
  readonly maxTokens: number;
  /** Gives files back. */
  close(): Promise<void>;
}

/** A task that comes with Muster: its prompts are made and not read, one character per token. */
export interface BuiltInTask extends Task {
  /** One character per token id. */
  readonly vocabulary: string;
  trainPrompt(key: PromptKey): Prompt;
  evalPrompt(index: number): Prompt;
  /** A solved example for the warm start. */
  supervised(random: Random): { readonly promptIds: Int32Array; readonly answerIds: Int32Array };
}

/** What a task asks of a model. */
export interface ModelNeeds {
  /** Number of token ids. */
  readonly vocab: number;
  /** Longest prompt and response together, in tokens. */
  readonly maxContext: number;
  /** Digest of the tokenizer that makes the token ids. */
  readonly tokenizer: string;
}

/** What a task asks of a model. Pure. */
export function needsOfTask(task: Pick<Task, "vocab" | "maxTokens" | "tokenizerDigest">): ModelNeeds {
  return { vocab: task.vocab, maxContext: task.maxTokens, tokenizer: task.tokenizerDigest };
}
