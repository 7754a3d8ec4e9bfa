/** Conversations and tools of a chat request, as a tokenizer's chat template takes them. Pure. */
import type { ChatMessage, ChatTool, ToolCall, ToolParserName } from "@muster/base";
import { isTable } from "../core/answer-facts.ts";
import { invalid } from "../core/reply.ts";
import type { SamplerTokenizer } from "./sampler-engine.ts";

type Table = Readonly<Record<string, unknown>>;

/** What a chat request says of tools. */
export interface AskedTools {
  readonly tools: readonly ChatTool[];
  /** How calls are read out of the answer; `null`: all of it is text. */
  readonly parser: ToolParserName | null;
  /** The answer ends with its first call. */
  readonly isOneCall: boolean;
}

const toolsMax = 512;

/** The messages of a request. @throws Refused with 400 */
export function chatMessagesOf(value: unknown): readonly ChatMessage[] {
  if (!Array.isArray(value) || !value.every(isTable)) throw invalid("messages must be a list of objects");
  return value.map(chatMessageOf);
}

/** A message whose content is one text; clients also write it in parts. @throws Refused with 400 for anything but text */
export function chatMessageOf({ role, content, tool_calls: called, tool_call_id: callId }: Table): ChatMessage {
  const toolCalls = Array.isArray(called) && called.length > 0 ? called.map(toolCallOf) : undefined;
  const isLeftOut = (content === null || content === undefined) && toolCalls !== undefined;
  const parts = Array.isArray(content) ? content : [{ type: "text", text: isLeftOut ? "" : content }];
  const texts = parts.map((part: unknown) => (isTable(part) && part.type === "text" ? part.text : undefined));
  if (typeof role !== "string" || !texts.every((text) => typeof text === "string"))
    throw invalid("messages must have a role and a content that is text, or parts of the type text");
  return {
    ...{ role, content: texts.join("") },
    ...(toolCalls ? { toolCalls } : {}),
    ...(typeof callId === "string" ? { toolCallId: callId } : {}),
  };
}

function toolCallOf(call: unknown): ToolCall {
  const called = isTable(call) ? call.function : undefined;
  if (!isTable(call) || !isTable(called) || typeof called.name !== "string")
    throw invalid("messages: each of tool_calls must be an object with id and function, which has name and arguments");
  const { arguments: args = {} } = called;
  return {
    ...{ id: typeof call.id === "string" ? call.id : "", name: called.name },
    arguments: typeof args === "string" ? args : JSON.stringify(args),
  };
}

/** The tools of a request. @throws Refused with 400 for what this model was not taught, or what nobody can promise of free drawing. */
export function askedToolsOf(
  { tools, tool_choice: choice, parallel_tool_calls: parallel }: Table,
  { encodeChat, toolParser = null }: SamplerTokenizer,
): AskedTools {
  if (tools !== undefined && tools !== null && !Array.isArray(tools)) throw invalid("tools must be a list");
  const listed = (tools ?? []) as readonly unknown[];
  if (listed.length > toolsMax) throw invalid(`tools has ${listed.length} of them, at most ${toolsMax}`);
  const isNone = choice === "none";
  if (choice !== undefined && choice !== null && choice !== "auto" && !isNone)
    throw invalid(
      `tool_choice ${JSON.stringify(choice).slice(0, 100)}: this sampler can not make a model call a tool; it must be auto or none`,
    );
  if (parallel !== undefined && parallel !== null && typeof parallel !== "boolean")
    throw invalid("parallel_tool_calls must be true or false");
  if (listed.length === 0) return { tools: [], parser: null, isOneCall: false };
  if (!encodeChat || toolParser === null)
    throw invalid(
      "tools: this job's tokenizer has no chat template that writes them and calls in a form that is known; rollout.tool_parser names the form",
    );
  // With tool_choice none the model still reads which tools there are: a conversation that had them goes on as it began.
  return { tools: listed.map(toolOf), parser: isNone ? null : toolParser, isOneCall: parallel === false };
}

function toolOf(tool: unknown, i: number): ChatTool {
  if (isTable(tool) && tool.type === "function" && isTable(tool.function) && typeof tool.function.name === "string")
    return tool;
  throw invalid(`tools.${i} must be an object with type "function" and function, which has a name`);
}
