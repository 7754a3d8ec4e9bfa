/** From a row of data to a prompt: a question as text or as a conversation, and its answer. */
import { type ChatMessage, hasCode, messageOf, type Prompt } from "@muster/base";
import { z } from "@muster/protocol";
import type { ChatTokenizer } from "./hugging-face/tokenizer.ts";
import type { Row } from "./rows/rows.ts";

/** How rows become prompts. */
export interface RowOptions {
  readonly promptColumn: string;
  /** `null`: no answer is needed. */
  readonly answerColumn: string | null;
  /** Whether the tokenizer's chat template is used where it has one. */
  readonly chat: boolean;
  /** Longest prompt in tokens. */
  readonly tokensMax: number;
  /** What becomes of a longer one: it is refused, or its beginning is cut off. */
  readonly overlong: "refuse" | "truncate";
}

const chatSchema = z
  .array(z.looseObject({ role: z.string(), content: z.string() }))
  .min(1)
  .max(1024);

/** Makes the prompt of a row. Pure. @throws with what is wrong with the row */
export function promptOfRow(row: Row, tokenizer: ChatTokenizer, options: RowOptions): Prompt {
  const question = columnOf(row, options.promptColumn, "prompts.prompt_column");
  const answer = options.answerColumn === null ? "" : answerOf(row, options.answerColumn);
  const { text, isChat } = textOf(question, tokenizer, options);
  const ids = isChat ? tokenizer.encode(text) : tokenizer.encodePlain(text);
  return { ids: fitted(ids, options), text, answer, row };
}

function columnOf(row: Row, name: string, key: string): unknown {
  const value = row[name];
  if (value !== undefined && value !== null) return value;
  const columns = Object.keys(row).slice(0, 16).join(", ");
  throw new Error(`it has no column "${name}" (columns: ${columns}); ${key} names another`);
}

function answerOf(row: Row, name: string): string {
  const value = columnOf(row, name, 'prompts.answer_column, "" for none,');
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return String(value);
  throw new Error(
    `its column "${name}" is ${Array.isArray(value) ? "a list" : "an object"}, an answer is text or a number`,
  );
}

function textOf(
  question: unknown,
  { renderChat }: ChatTokenizer,
  { chat, promptColumn }: RowOptions,
): { readonly text: string; readonly isChat: boolean } {
  if (typeof question === "string" && !(chat && renderChat)) return { text: question, isChat: false };
  if (!renderChat)
    throw new Error(`its column "${promptColumn}" is a conversation, and the tokenizer has no chat template`);
  const messages =
    typeof question === "string" ? [{ role: "user", content: question }] : chatSchema.safeParse(question).data;
  if (!messages)
    throw new Error(`its column "${promptColumn}" must be text, or a list of messages with role and content`);
  return { text: rendered(renderChat, messages), isChat: true };
}

function rendered(render: NonNullable<ChatTokenizer["renderChat"]>, messages: readonly ChatMessage[]): string {
  try {
    return render(messages);
  } catch (error) {
    // No fault of the row.
    if (hasCode(error, "MUSTER_ERR_TEMPLATE_THREAD")) throw error;
    throw new Error(`the chat template refuses it (${messageOf(error)})`, { cause: error });
  }
}

function fitted(ids: Int32Array, { tokensMax, overlong }: RowOptions): Int32Array {
  if (ids.length === 0) throw new Error("its prompt has no token");
  if (ids.length <= tokensMax) return ids;
  if (overlong === "truncate") return ids.slice(-tokensMax);
  throw new Error(
    `its prompt has ${ids.length} tokens, more than prompts.max_tokens = ${tokensMax}; raise that, or set prompts.overlong to "truncate"`,
  );
}
