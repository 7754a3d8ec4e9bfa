/** How a tokenizer writes conversations, and in which form its model calls tools. */
import { type ChatMessage, type ChatTool, hasCode, type ToolParserName } from "@muster/base";
import type { RenderQuestion } from "../chat-templates/messages.ts";
import { renderTemplate } from "../chat-templates/render.ts";
import { errors } from "../errors.ts";
import type { TokenizerFiles } from "./tokenizer-files.ts";

/** How conversations are written. */
export interface ChatTemplate {
  /**
   * A conversation as text that the assistant's turn follows; `null` where the tokenizer has no template.
   *
   * @throws Error with the template's own words when it refuses the conversation; MUSTER_ERR_TEMPLATE_EXCESS when it takes too long, too much memory, or
   * writes too much; MUSTER_ERR_TEMPLATE_THREAD
   */
  readonly renderChat: ((messages: readonly ChatMessage[], tools?: readonly ChatTool[]) => string) | null;
  /** The form of calls that it teaches; `null` where it writes no tools, or teaches a form that is not known. */
  readonly toolParser: ToolParserName | null;
}

/** What a template needs besides a conversation. */
export interface TemplateFacts {
  /** Where the template is, for errors. */
  readonly path: string;
  /** Text of the token that begins a text; `null` for none. */
  readonly bos: string | null;
  readonly eos: string | null;
  readonly invalid: (reason: string) => Error;
}

/** The chat template of a tokenizer, where it has one; that for tools is another one in some. @throws as `invalid` */
export function chatTemplateOf(
  { chatTemplate, toolTemplate }: Pick<TokenizerFiles, "chatTemplate" | "toolTemplate">,
  { path, bos, eos, invalid }: TemplateFacts,
): ChatTemplate {
  if (chatTemplate === null) return { renderChat: null, toolParser: null };
  const rendered = (question: RenderQuestion): string => {
    const answer = renderTemplate(question);
    if (answer.kind === "text") return answer.text;
    if (answer.kind === "unreadable") throw invalid(`its chat template can not be read (${answer.reason})`);
    if (answer.kind === "excess") throw errors.TemplateExcess({ path, reason: answer.reason });
    throw new Error(answer.reason);
  };
  const withTools = toolTemplate ?? chatTemplate;
  for (const template of new Set([chatTemplate, withTools])) rendered({ template, variables: null });
  const tokens = { bos_token: bos ?? "", eos_token: eos ?? "" };
  const renderChat = (messages: readonly ChatMessage[], tools: readonly ChatTool[] = []): string =>
    rendered({
      template: tools.length > 0 ? withTools : chatTemplate,
      variables: {
        ...{ messages: messages.map(templateMessage), add_generation_prompt: true, ...tokens },
        ...(tools.length > 0 ? { tools: [...tools] } : {}),
      },
    });
  return { renderChat, toolParser: writesTools(renderChat) ? toolParserOf(withTools) : null };
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
  } catch (error) {
    // Nothing is known of it while no thread renders it.
    if (hasCode(error, "MUSTER_ERR_TEMPLATE_THREAD")) throw error;
    // It refuses this conversation or exceeds a limit.
    return false;
  }
}

/** The form that a template teaches, by what stands in it; `null` where it is none of those that are known. */
function toolParserOf(template: string): ToolParserName | null {
  // Qwen3-Coder writes `<tool_call><function=…>`, which is no JSON.
  if (template.includes("<tool_call>")) return template.includes("<function=") ? null : "hermes";
  return template.includes('"parameters"') && template.includes("python_tag") ? "llama3_json" : null;
}
