/** OpenAI's Responses API (https://platform.openai.com/docs/api-reference/responses) over chat completions. Pure. */
import { isTable } from "./answer-facts.ts";
import {
  checkFields,
  choiceOf,
  type Dialect,
  type EventWriter,
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

/** The last row changes nothing of what is drawn. */
const known = [
  ...["model", "input", "instructions", "max_output_tokens", "temperature", "top_p", "stream", "tools", "tool_choice"],
  ...["parallel_tool_calls", "text", ...ownFields],
  ...["metadata", "store", "user", "stream_options", "service_tier", "prompt_cache_key", "safety_identifier"],
];

/** Fields that are only taken with a value that asks for nothing. */
const neutral: Readonly<Record<string, unknown>> = { truncation: "disabled", background: false };

export const responsesApi: Dialect = {
  path: "/v1/responses",
  chatOf(request) {
    for (const [field, value] of Object.entries(neutral))
      if (isGiven(request[field]) && request[field] !== value) throw untranslated(field);
    if (Array.isArray(request.include) && request.include.length > 0) throw untranslated("include");
    checkFields(request, [...known, ...Object.keys(neutral), "include"]);
    const { model, instructions, max_output_tokens: max_tokens, temperature, top_p, stream, seed, muster } = request;
    const system = isGiven(instructions) ? [{ role: "system", content: textIn(instructions, "instructions") }] : [];
    const messages = [...system, ...messagesOf(request.input)];
    return given({
      ...{ model, messages, max_tokens, temperature, top_p, stream, seed, muster },
      ...{ ...toolsOf(request), response_format: formatOf(request.text) },
    });
  },
  answerOf(answer, request) {
    const { id, text, calls, finish, promptTokens, responseTokens } = choiceOf(answer);
    const reason = { length: "max_output_tokens", content_filter: "content_filter" }[`${finish}`];
    const part = { type: "output_text", text, annotations: [] };
    const said = { type: "message", id: `msg_${id}`, status: "completed", role: "assistant", content: [part] };
    const output = calls.map((call, i) => ({
      ...{ type: "function_call", id: `fc_${id}_${i}`, call_id: call.id, name: call.name, arguments: call.args },
      status: "completed",
    }));
    return {
      ...{ id: `resp_${id}`, object: "response", created_at: answer.created ?? 0 },
      ...{ status: reason === undefined ? "completed" : "incomplete", error: null },
      incomplete_details: reason === undefined ? null : { reason },
      ...{ instructions: request.instructions ?? null, max_output_tokens: request.max_output_tokens ?? null },
      ...{
        model: answer.model ?? request.model ?? null,
        output: text === "" && calls.length > 0 ? output : [said, ...output],
      },
      ...{ parallel_tool_calls: request.parallel_tool_calls ?? true, previous_response_id: null, store: false },
      ...{ reasoning: { effort: null, summary: null }, temperature: request.temperature ?? null },
      ...{ text: request.text ?? { format: { type: "text" } }, tool_choice: request.tool_choice ?? "auto" },
      ...{ tools: request.tools ?? [], top_p: request.top_p ?? null, truncation: "disabled" },
      ...{ metadata: request.metadata ?? {}, user: request.user ?? null },
      usage: {
        ...{ input_tokens: promptTokens, input_tokens_details: { cached_tokens: 0 } },
        ...{ output_tokens: responseTokens, output_tokens_details: { reasoning_tokens: 0 } },
        total_tokens: promptTokens + responseTokens,
      },
    };
  },
  eventsOf: (request) => new ResponseEvents(request),
};

/** The events of one response, which are numbered. */
class ResponseEvents implements EventWriter {
  readonly ping = ": ping\n\n";
  readonly #request: Table;
  #begun: Table = {};
  #item: Table = {};
  #isOpen = false;
  #next = 0;

  constructor(request: Table) {
    this.#request = request;
  }

  begin(head: Table): string {
    const answer = responsesApi.answerOf(head, this.#request);
    this.#begun = { ...answer, status: "in_progress", output: [], usage: null, incomplete_details: null };
    const [item] = answer.output as readonly [Table];
    this.#item = { ...item, status: "in_progress", content: [] };
    return this.#written([
      { type: "response.created", response: this.#begun },
      { type: "response.in_progress", response: this.#begun },
    ]);
  }

  text(delta: string): string {
    return this.#written([
      ...this.#open(),
      { type: "response.output_text.delta", ...this.#place(), delta, logprobs: [] },
    ]);
  }

  end(whole: Table): string {
    const answer = responsesApi.answerOf(whole, this.#request);
    const events = (answer.output as readonly Table[]).flatMap((item, i) =>
      item.type === "message" ? [...this.#open(), ...this.#close(item)] : callEvents(item, i),
    );
    return this.#written([...events, { type: `response.${answer.status}`, response: answer }]);
  }

  fail({ message }: Reply): string {
    const response = { ...this.#begun, status: "failed", error: { code: "server_error", message } };
    return this.#written([{ type: "response.failed", response }]);
  }

  #open(): readonly Table[] {
    if (this.#isOpen) return [];
    this.#isOpen = true;
    return [
      { type: "response.output_item.added", output_index: 0, item: this.#item },
      {
        type: "response.content_part.added",
        ...this.#place(),
        part: { type: "output_text", text: "", annotations: [] },
      },
    ];
  }

  #close(item: Table): readonly Table[] {
    const [part] = item.content as readonly [Table];
    return [
      { type: "response.output_text.done", ...this.#place(), text: part.text, logprobs: [] },
      { type: "response.content_part.done", ...this.#place(), part },
      { type: "response.output_item.done", output_index: 0, item },
    ];
  }

  #place(): Table {
    return { item_id: this.#item.id, output_index: 0, content_index: 0 };
  }

  #written(events: readonly Table[]): string {
    return events.map((event) => namedEvent({ ...event, sequence_number: this.#next++ })).join("");
  }
}

function callEvents(item: Table, output_index: number): readonly Table[] {
  const { name, arguments: args } = item;
  const at = { item_id: item.id, output_index };
  return [
    { type: "response.output_item.added", output_index, item: { ...item, status: "in_progress", arguments: "" } },
    { type: "response.function_call_arguments.delta", ...at, delta: args },
    { type: "response.function_call_arguments.done", ...at, name, arguments: args },
    { type: "response.output_item.done", output_index, item },
  ];
}

/** Items that follow each other and are the assistant's become one message. */
function messagesOf(input: unknown): readonly Table[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  const messages: Table[] = [];
  for (const [i, item] of tablesIn(input, "input").entries()) {
    const message = messageOf(item, `input.${i}`);
    const last = messages.at(-1);
    const calls = message.tool_calls as readonly Table[] | undefined;
    const before = (last?.tool_calls ?? []) as readonly Table[];
    if (calls !== undefined && last?.role === "assistant")
      messages[messages.length - 1] = { ...last, tool_calls: [...before, ...calls] };
    else messages.push(message);
  }
  return messages;
}

function messageOf(item: Table, place: string): Table {
  const { type = "message", call_id: id } = item;
  if (type === "function_call") {
    const [name, args] = [textIn(item.name, `${place}.name`), textIn(item.arguments, `${place}.arguments`)];
    const call = { id: textIn(id, `${place}.call_id`), type: "function", function: { name, arguments: args } };
    return { role: "assistant", content: null, tool_calls: [call] };
  }
  if (type === "function_call_output") {
    const content = contentOf(item.output, `${place}.output`);
    return { role: "tool", tool_call_id: textIn(id, `${place}.call_id`), content };
  }
  if (type !== "message") throw untranslated(`${place}.type ${type}`);
  const role = item.role === "developer" ? "system" : item.role;
  if (role !== "user" && role !== "system" && role !== "assistant")
    throw invalid(`${place}.role must be user, assistant, system or developer`);
  return { role, content: contentOf(item.content, `${place}.content`) };
}

/** A text, or parts; one part of text is a text. */
function contentOf(value: unknown, place: string): unknown {
  if (typeof value === "string") return value;
  const parts = tablesIn(value, place).map((part, i) => partOf(part, `${place}.${i}`));
  const [only] = parts;
  return parts.length === 1 && only?.type === "text" ? only.text : parts;
}

function partOf(part: Table, place: string): Table {
  const isText = part.type === "input_text" || part.type === "output_text" || part.type === "text";
  if (isText) return { type: "text", text: textIn(part.text, `${place}.text`) };
  if (part.type !== "input_image" || !isGiven(part.image_url)) throw untranslated(`${place}.type ${part.type}`);
  const url = textIn(part.image_url, `${place}.image_url`);
  return { type: "image_url", image_url: given({ url, detail: part.detail }) };
}

function toolsOf({ tools, tool_choice: choice, parallel_tool_calls }: Table): Table {
  const listed = isGiven(tools) ? tablesIn(tools, "tools") : [];
  const functions = listed.map(({ type, name, description, parameters, strict }, i) => {
    if (type !== "function") throw untranslated(`tools.${i}.type ${type}`);
    const called = { name: textIn(name, `tools.${i}.name`), description, parameters, strict };
    return { type, function: given(called) };
  });
  if (functions.length === 0) return {};
  if (isTable(choice) && choice.type !== "function") throw untranslated(`tool_choice.type ${choice.type}`);
  const tool_choice = isTable(choice) ? { type: "function", function: { name: choice.name } } : choice;
  return { tools: functions, tool_choice, parallel_tool_calls };
}

function formatOf(text: unknown): Table | undefined {
  if (!isGiven(text)) return undefined;
  if (!isTable(text)) throw invalid("text must be an object");
  checkFields(text, ["format"], "text.");
  const { format } = text;
  if (!isTable(format) || format.type === "text") return undefined;
  const { type, ...schema } = format;
  if (type === "json_object") return { type };
  if (type === "json_schema") return { type, json_schema: schema };
  throw untranslated(`text.format.type ${type}`);
}
