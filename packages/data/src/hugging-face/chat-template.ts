/** How a tokenizer writes conversations, and in which form its model calls tools. Pure. */
import { Template } from "@huggingface/jinja";
import { type ChatMessage, type ChatTool, messageOf, type ToolParserName } from "@muster/base";
import type { TokenizerFiles } from "./tokenizer-files.ts";

/** How conversations are written. */
export interface ChatTemplate {
  /** A conversation as text that the assistant's turn follows; `null` where the tokenizer has no template. */
  readonly renderChat: ((messages: readonly ChatMessage[], tools?: readonly ChatTool[]) => string) | null;
  /** The form of calls that it teaches; `null` where it writes no tools, or teaches a form that is not known. */
  readonly toolParser: ToolParserName | null;
}

/** What a template needs besides a conversation. */
export interface TemplateFacts {
  /** Text of the token that begins a text; `null` for none. */
  readonly bos: string | null;
  readonly eos: string | null;
  readonly invalid: (reason: string, cause?: unknown) => Error;
}

/** The chat template of a tokenizer, where it has one; that for tools is another one in some. @throws as `invalid` */
export function chatTemplateOf(
  { chatTemplate, toolTemplate }: Pick<TokenizerFiles, "chatTemplate" | "toolTemplate">,
  { bos, eos, invalid }: TemplateFacts,
): ChatTemplate {
  if (chatTemplate === null) return { renderChat: null, toolParser: null };
  const parsed = (text: string): Template => {
    try {
      return new Template(text);
    } catch (error) {
      throw invalid(`its chat template can not be read (${messageOf(error)})`, error);
    }
  };
  const [plain, withTools] = [parsed(chatTemplate), parsed(toolTemplate ?? chatTemplate)];
  const tokens = { bos_token: bos ?? "", eos_token: eos ?? "" };
  const renderChat = (messages: readonly ChatMessage[], tools: readonly ChatTool[] = []): string =>
    (tools.length > 0 ? withTools : plain).render({
      ...{ messages: messages.map(templateMessage), add_generation_prompt: true, ...tokens },
      ...(tools.length > 0 ? { tools: [...tools] } : {}),
    });
  return { renderChat, toolParser: writesTools(renderChat) ? toolParserOf(toolTemplate ?? chatTemplate) : null };
}

/** A message as templates read it: arguments are objects there, which they write as their model was taught. */
function templateMessage({ role, content, toolCalls, toolCallId }: ChatMessage): object {
  const calls = toolCalls?.map(({ id, name, arguments: args }) => ({
    ...{ id, type: "function" },
    function: { name, arguments: objectIn(args) },
  }));
  return {
    ...{ role, content },
    ...(calls ? { tool_calls: calls } : {}),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
  };
}

/** What is no JSON stays a text. */
function objectIn(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return json;
  }
}

/** A template may have no place for tools: then it leaves them out without a word. */
function writesTools(render: (messages: readonly ChatMessage[], tools: readonly ChatTool[]) => string): boolean {
  const name = "muster_probe";
  const parameters = { type: "object", properties: {} };
  const tool = { type: "function", function: { name, description: "", parameters } };
  try {
    return render([{ role: "user", content: "" }], [tool]).includes(name);
  } catch {
    // It refuses this conversation, so nothing is known of it.
    return false;
  }
}

/** The form that a template teaches, by what stands in it; `null` where it is none of those that are known. */
function toolParserOf(template: string): ToolParserName | null {
  // Qwen3-Coder writes `<tool_call><function=…>`, which is no JSON.
  if (template.includes("<tool_call>")) return template.includes("<function=") ? null : "hermes";
  return template.includes('"parameters"') && template.includes("python_tag") ? "llama3_json" : null;
}
