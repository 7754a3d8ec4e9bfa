/** Anthropic's Messages API (https://docs.anthropic.com/en/api/messages) over chat completions. Pure. */
import { isTable, tableOf } from "./answer-facts.ts";
import {
  checkFields,
  choiceOf,
  type Dialect,
  given,
  isGiven,
  namedEvent,
  ownFields,
  type Table,
  tablesIn,
  textIn,
  untranslated,
} from "./dialect.ts";
import { invalid, type Reply } from "./reply.ts";

/** `cache_control`, `metadata` and `service_tier` change nothing of what is drawn. */
const known = [
  ...["model", "messages", "max_tokens", "system", "stop_sequences", "temperature", "top_p", "top_k", "stream"],
  ...["tools", "tool_choice", "thinking", "metadata", "service_tier", ...ownFields],
];

/** Name of the one member of a tool's input when the model wrote arguments that are no JSON object: nothing of them is lost. */
const malformed = "malformed_arguments";

export const messagesApi: Dialect = {
  path: "/v1/messages",
  chatOf(request) {
    checkFields(request, known);
    if (isTable(request.thinking) && request.thinking.type !== "disabled") throw untranslated("thinking");
    if (!Number.isSafeInteger(request.max_tokens)) throw invalid("max_tokens must be a whole number");
    const messages = tablesIn(request.messages, "messages").flatMap((one, i) => messagesOf(one, `messages.${i}`));
    const system = isGiven(request.system) ? [{ role: "system", content: plainText(request.system, "system") }] : [];
    const { model, max_tokens, stop_sequences: stop, temperature, top_p, top_k, stream, seed, muster } = request;
    return given({
      ...{
        model,
        messages: [...system, ...messages],
        max_tokens,
        stop,
        temperature,
        top_p,
        top_k,
        stream,
        seed,
        muster,
      },
      ...toolsOf(request),
    });
  },
  answerOf(answer, request) {
    const { id, text, calls, finish, stop, promptTokens, responseTokens } = choiceOf(answer);
    const uses = calls.map((call) => ({ type: "tool_use", id: call.id, name: call.name, input: inputOf(call.args) }));
    const isStopped = finish === "stop" && stop !== null && [request.stop_sequences].flat().includes(stop);
    return {
      ...{ id: `msg_${id}`, type: "message", role: "assistant", model: answer.model ?? request.model },
      content: [...(text === "" ? [] : [{ type: "text", text }]), ...uses],
      stop_reason: isStopped ? "stop_sequence" : stopReasonOf(finish, uses.length > 0),
      stop_sequence: isStopped ? stop : null,
      usage: { input_tokens: promptTokens, output_tokens: responseTokens },
    };
  },
  eventsOf(request) {
    let open = false;
    const close = (): readonly Table[] => (open ? [{ type: "content_block_stop", index: 0 }] : []);
    const written = (events: readonly Table[]): string => events.map(namedEvent).join("");
    return {
      begin(head) {
        const { stop_reason, stop_sequence, ...message } = messagesApi.answerOf(head, request);
        return namedEvent({ type: "message_start", message: { ...message, stop_reason: null, stop_sequence: null } });
      },
      text(text) {
        const start = { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } };
        const delta = { type: "content_block_delta", index: 0, delta: { type: "text_delta", text } };
        const events = open ? [delta] : [start, delta];
        open = true;
        return written(events);
      },
      ping: namedEvent({ type: "ping" }),
      end(whole) {
        const { content, stop_reason, stop_sequence, usage } = messagesApi.answerOf(whole, request);
        const uses = (content as readonly Table[]).filter(({ type }) => type === "tool_use");
        return written([
          ...close(),
          ...uses.flatMap((use, i) => useEvents(use, i + (open ? 1 : 0))),
          { type: "message_delta", delta: { stop_reason, stop_sequence }, usage },
          { type: "message_stop" },
        ]);
      },
      fail: (reply) => `event: error\ndata: ${messagesError(reply)}\n\n`,
    };
  },
  errorOf: messagesError,
};

function messagesError({ status, message }: Pick<Reply, "status" | "message">): string {
  const type = errorTypes[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
  return JSON.stringify({ type: "error", error: { type, message } });
}

const errorTypes: Readonly<Record<number, string>> = {
  ...{ 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large" },
  ...{ 429: "rate_limit_error", 503: "overloaded_error", 504: "timeout_error" },
};

/** A call of a tool. Its input is written at once: only a whole one can be read. */
function useEvents(use: Table, index: number): readonly Table[] {
  const delta = { type: "input_json_delta", partial_json: JSON.stringify(use.input) };
  return [
    { type: "content_block_start", index, content_block: { ...use, input: {} } },
    { type: "content_block_delta", index, delta },
    { type: "content_block_stop", index },
  ];
}

function stopReasonOf(finish: unknown, hasCalls: boolean): string {
  if (finish === "length") return "max_tokens";
  if (finish === "content_filter") return "refusal";
  return hasCalls ? "tool_use" : "end_turn";
}

/** A message of the API may be several: each result of a tool is one of its own, before what the user says. */
function messagesOf({ role, content }: Table, place: string): readonly Table[] {
  if (role !== "user" && role !== "assistant") throw invalid(`${place}.role must be user or assistant`);
  if (typeof content === "string") return [{ role, content }];
  const blocks = tablesIn(content, `${place}.content`).map((block, i) => [block, `${place}.content.${i}`] as const);
  if (role === "assistant") return [assistantOf(blocks)];
  const results = blocks.filter(([{ type }]) => type === "tool_result").map(([block, at]) => resultOf(block, at));
  const parts = blocks.filter(([{ type }]) => type !== "tool_result").map(([block, at]) => partOf(block, at));
  const [only] = parts;
  const said = parts.length === 1 && only?.type === "text" ? only.text : parts;
  return parts.length === 0 ? results : [...results, { role, content: said }];
}

type Placed = readonly (readonly [Table, string])[];

function assistantOf(blocks: Placed): Table {
  const texts: string[] = [];
  const calls: Table[] = [];
  for (const [block, place] of blocks) {
    if (block.type === "text") texts.push(textIn(block.text, `${place}.text`));
    else if (block.type === "tool_use") calls.push(callOf(block, place));
    else throw untranslated(`${place}.type ${block.type}`);
  }
  const content = texts.length === 0 ? null : texts.join("");
  return { role: "assistant", content, ...(calls.length === 0 ? {} : { tool_calls: calls }) };
}

function callOf({ id, name, input }: Table, place: string): Table {
  if (!isTable(input)) throw invalid(`${place}.input must be an object`);
  const raw = input[malformed];
  const args = typeof raw === "string" && Object.keys(input).length === 1 ? raw : JSON.stringify(input);
  return {
    ...{ id: textIn(id, `${place}.id`), type: "function" },
    function: { name: textIn(name, `${place}.name`), arguments: args },
  };
}

function inputOf(args: string): Table {
  return tableOf(args === "" ? "{}" : args) ?? { [malformed]: args };
}

function resultOf({ tool_use_id: call, content, is_error: isError }: Table, place: string): Table {
  const text = isGiven(content) ? plainText(content, `${place}.content`) : "";
  const said = isError === true ? `Error: ${text}` : text;
  return { role: "tool", tool_call_id: textIn(call, `${place}.tool_use_id`), content: said };
}

function partOf(block: Table, place: string): Table {
  if (block.type === "text") return { type: "text", text: textIn(block.text, `${place}.text`) };
  const { source } = block;
  if (block.type !== "image" || !isTable(source)) throw untranslated(`${place}.type ${block.type}`);
  if (source.type === "url")
    return { type: "image_url", image_url: { url: textIn(source.url, `${place}.source.url`) } };
  if (source.type !== "base64") throw untranslated(`${place}.source.type ${source.type}`);
  return { type: "image_url", image_url: { url: `data:${source.media_type};base64,${source.data}` } };
}

/** A text, or blocks of text. */
function plainText(value: unknown, place: string): string {
  if (typeof value === "string") return value;
  const texts = tablesIn(value, place).map(({ type, text }, i) => {
    if (type !== "text") throw untranslated(`${place}.${i}.type ${type}`);
    return textIn(text, `${place}.${i}.text`);
  });
  return texts.join("\n");
}

function toolsOf({ tools, tool_choice: choice }: Table): Table {
  const listed = isGiven(tools) ? tablesIn(tools, "tools") : [];
  const functions = listed.map(({ type, name, description, input_schema: parameters }, i) => {
    if (isGiven(type) && type !== "custom") throw untranslated(`tools.${i}.type ${type}`);
    return { type: "function", function: given({ name: textIn(name, `tools.${i}.name`), description, parameters }) };
  });
  if (functions.length === 0) return {};
  if (!isTable(choice)) return { tools: functions };
  const named = { auto: "auto", any: "required", none: "none" }[`${choice.type}`];
  if (named === undefined && choice.type !== "tool") throw untranslated(`tool_choice.type ${choice.type}`);
  return {
    ...{ tools: functions, tool_choice: named ?? { type: "function", function: { name: choice.name } } },
    ...(choice.disable_parallel_tool_use === true ? { parallel_tool_calls: false } : {}),
  };
}
