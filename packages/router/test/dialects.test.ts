/** The Messages API of Anthropic and the Responses API of OpenAI, over engines that know chat completions alone. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { messagesApi } from "../src/core/messages-api.ts";
import { responsesApi } from "../src/core/responses-api.ts";
import { type OpenedRouter, openRouter, startEngine } from "./support/open-router.ts";

type Json = Record<string, unknown>;

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "muster-dialects-"));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

const call = { id: "call_1", type: "function", function: { name: "add", arguments: '{"a": 1, "b": 2}' } };
const schema = { type: "object", properties: { a: { type: "number" } } };
const chatTool = { type: "function", function: { name: "add", description: "adds", parameters: schema } };

const jsonOf = async (answer: Response): Promise<Json> => (await answer.json()) as Json;

/** Names and data of the events of a stream. */
async function namedEvents(answer: Response): Promise<{ name: string; data: Json }[]> {
  expect(answer.headers.get("content-type")).toMatch("text/event-stream");
  const blocks = (await answer.text()).split("\n\n").filter((block) => block !== "");
  return blocks.map((block) => {
    const [name = "", data = ""] = block.split("\n");
    return { name: name.replace("event: ", ""), data: JSON.parse(data.replace("data: ", "")) as Json };
  });
}

test("a request of the Messages API is that of chat completions", () => {
  const request = {
    ...{ model: "m", max_tokens: 9, stop_sequences: ["."], top_k: 3, metadata: { user_id: "u" }, stream: true },
    system: [{ type: "text", text: "be brief", cache_control: { type: "ephemeral" } }],
    messages: [
      { role: "user", content: "one" },
      {
        role: "assistant",
        content: [
          { type: "text", text: "I add" },
          { type: "tool_use", id: "t1", name: "add", input: { a: 1 } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "t1", content: [{ type: "text", text: "3" }] },
          { type: "tool_result", tool_use_id: "t2", content: "no", is_error: true },
          { type: "text", text: "and now?" },
        ],
      },
      { role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "AA" } }] },
    ],
    tools: [{ name: "add", description: "adds", input_schema: schema }],
    tool_choice: { type: "any", disable_parallel_tool_use: true },
  };
  expect(messagesApi.chatOf(request)).toEqual({
    ...{ model: "m", max_tokens: 9, stop: ["."], top_k: 3, stream: true },
    messages: [
      { role: "system", content: "be brief" },
      { role: "user", content: "one" },
      {
        ...{ role: "assistant", content: "I add" },
        tool_calls: [{ id: "t1", type: "function", function: { name: "add", arguments: '{"a":1}' } }],
      },
      { role: "tool", tool_call_id: "t1", content: "3" },
      { role: "tool", tool_call_id: "t2", content: "Error: no" },
      { role: "user", content: "and now?" },
      { role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AA" } }] },
    ],
    ...{ tools: [chatTool], tool_choice: "required", parallel_tool_calls: false },
  });
});

test("a request of the Responses API is that of chat completions", () => {
  const request = {
    ...{ model: "m", instructions: "be brief", max_output_tokens: 9, store: false },
    input: [
      { role: "user", content: [{ type: "input_text", text: "one" }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "I add", annotations: [] }] },
      { type: "function_call", call_id: "t1", name: "add", arguments: "{}" },
      { type: "function_call", call_id: "t2", name: "add", arguments: "{}" },
      { type: "function_call_output", call_id: "t1", output: "3" },
    ],
    tools: [{ type: "function", name: "add", description: "adds", parameters: schema }],
    tool_choice: { type: "function", name: "add" },
    text: { format: { type: "json_schema", name: "n", schema } },
  };
  const called = (id: string) => ({ id, type: "function", function: { name: "add", arguments: "{}" } });
  expect(responsesApi.chatOf(request)).toEqual({
    ...{ model: "m", max_tokens: 9 },
    messages: [
      { role: "system", content: "be brief" },
      { role: "user", content: "one" },
      { role: "assistant", content: "I add", tool_calls: [called("t1"), called("t2")] },
      { role: "tool", tool_call_id: "t1", content: "3" },
    ],
    ...{ tools: [chatTool], tool_choice: { type: "function", function: { name: "add" } } },
    response_format: { type: "json_schema", json_schema: { name: "n", schema } },
  });
});

const said = { role: "user", content: "a" };
test.each([
  [{ max_tokens: 1, messages: [said], container: "x" }, "container"],
  [{ max_tokens: 1, messages: [said], thinking: { type: "enabled", budget_tokens: 9 } }, "thinking"],
  [{ max_tokens: 1, messages: [said], tools: [{ type: "web_search_20250305", name: "w" }] }, "tools.0.type web_search"],
  [
    { max_tokens: 1, messages: [{ role: "user", content: [{ type: "document" }] }] },
    "messages.0.content.0.type document",
  ],
  [{ messages: [said] }, "max_tokens must be a whole number"],
  [{ max_tokens: 1, messages: [{ role: "system", content: "a" }] }, "messages.0.role must be user or assistant"],
  [{ max_tokens: 1, messages: "a" }, "messages must be a list of objects"],
])("what the Messages API can say and chat completions can not is refused by name: %j", (request, message) => {
  expect(() => messagesApi.chatOf(request)).toThrow(message);
});

test.each([
  [{ input: "a", previous_response_id: "resp_1" }, "previous_response_id"],
  [{ input: "a", background: true }, "background"],
  [{ input: "a", tools: [{ type: "web_search" }] }, "tools.0.type web_search"],
  [{ input: [{ type: "item_reference", id: "x" }] }, "input.0.type item_reference"],
  [{ input: [{ role: "user", content: [{ type: "input_file" }] }] }, "input.0.content.0.type input_file"],
  [{ input: "a", text: { verbosity: "low" } }, "text.verbosity"],
  [{ input: 3 }, "input must be a list of objects"],
])("what the Responses API can say and chat completions can not is refused by name: %j", (request, message) => {
  expect(() => responsesApi.chatOf(request)).toThrow(message);
});

test("ends of a response have the names of each API", () => {
  const answer = (finish: string, more: object = {}) => ({
    id: "c",
    choices: [{ finish_reason: finish, message: { role: "assistant", content: "x" }, ...more }],
  });
  const reasonOf = (finish: string, more: object = {}) => {
    const { stop_reason, stop_sequence } = messagesApi.answerOf(answer(finish, more), { stop_sequences: ["."] });
    return [stop_reason, stop_sequence];
  };
  expect(reasonOf("stop")).toEqual(["end_turn", null]);
  expect(reasonOf("stop", { stop_reason: "." })).toEqual(["stop_sequence", "."]);
  expect(reasonOf("length")).toEqual(["max_tokens", null]);
  expect(reasonOf("content_filter")).toEqual(["refusal", null]);
  expect(responsesApi.answerOf(answer("length"), {})).toMatchObject({
    ...{ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } },
  });
});

test("arguments that are no JSON object reach the agent, and come back as they were", () => {
  const broken = { ...call, function: { name: "add", arguments: '{"a": ' } };
  const answer = { id: "c", choices: [{ message: { role: "assistant", content: null, tool_calls: [broken] } }] };
  const { content } = messagesApi.answerOf(answer, {});
  expect(content).toEqual([{ type: "tool_use", id: "call_1", name: "add", input: { malformed_arguments: '{"a": ' } }]);
  const again = messagesApi.chatOf({ max_tokens: 1, messages: [{ role: "assistant", content }] });
  expect(again.messages).toEqual([{ role: "assistant", content: null, tool_calls: [broken] }]);
});

test("the router answers both APIs, whole and as events, and says what is wrong in the form of each", async () => {
  const engine = await startEngine();
  const token = "t".repeat(32);
  const { ask } = await openRouter([engine], {}, { inference: token, admin: "a".repeat(32) });
  const key = { "x-api-key": token, "anthropic-version": "2023-06-01" };
  const request = { model: "m", max_tokens: 8, messages: [said] };
  const message = await jsonOf(await ask("/v1/messages", request, key));
  expect(message).toMatchObject({
    type: "message",
    content: [{ type: "text", text: "hello" }],
    stop_reason: "end_turn",
  });
  expect(engine.requests.at(-1)).toMatchObject({ path: "/v1/chat/completions", body: { messages: [said] } });
  expect(engine.requests.at(-1)?.headers["x-api-key"]).toBeUndefined();
  const events = await namedEvents(await ask("/v1/messages", { ...request, stream: true }, key));
  const names = events.map(({ name }) => name);
  expect(names.filter((name, i) => name !== names[i - 1])).toEqual([
    ...["message_start", "content_block_start", "content_block_delta", "content_block_stop"],
    ...["message_delta", "message_stop"],
  ]);
  const deltas = events.filter(({ name }) => name === "content_block_delta").map(({ data }) => data.delta as Json);
  expect(deltas.map(({ text }) => text).join("")).toBe("12345");
  const bearer = { authorization: `Bearer ${token}` };
  const response = await jsonOf(await ask("/v1/responses", { model: "m", input: "a" }, bearer));
  expect(response).toMatchObject({
    object: "response",
    status: "completed",
    output: [{ content: [{ text: "hello" }] }],
  });
  const wrong = await ask("/v1/messages", { ...request, container: "x" }, key);
  expect([wrong.status, await jsonOf(wrong)]).toMatchObject([
    400,
    { type: "error", error: { type: "invalid_request_error" } },
  ]);
  const unknown = await ask("/v1/messages", request, { "x-api-key": "wrong" });
  expect([unknown.status, await jsonOf(unknown)]).toMatchObject([401, { error: { type: "authentication_error" } }]);
  engine.mode = "500";
  const failed = await ask("/v1/messages", request, key);
  expect([failed.status, await jsonOf(failed)]).toMatchObject([502, { type: "error", error: { type: "api_error" } }]);
  const refused = await ask("/v1/responses", { input: "a", background: true }, bearer);
  expect([refused.status, await jsonOf(refused)]).toMatchObject([400, { error: { code: "invalid_request" } }]);
});

/** An episode of two turns, with a call of a tool in the first one; all answers. */
async function episode({ ask }: OpenedRouter, api: "messages" | "responses"): Promise<Json[]> {
  const path = `/sessions/a/v1/${api}`;
  if (api === "messages") {
    const first = { model: "m", max_tokens: 8, messages: [said], tools: [{ name: "add", input_schema: schema }] };
    const one = await jsonOf(await ask(path, first));
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "3" }] };
    const messages = [said, { role: "assistant", content: one.content }, result];
    return [one, await jsonOf(await ask(path, { ...first, messages }))];
  }
  const first = { model: "m", input: [said], tools: [{ type: "function", name: "add", parameters: schema }] };
  const one = await jsonOf(await ask(path, first));
  const result = { type: "function_call_output", call_id: "call_1", output: "3" };
  return [one, await jsonOf(await ask(path, { ...first, input: [said, ...(one.output as Json[]), result] }))];
}

test.each(["messages", "responses"] as const)(
  "an agent of /v1/%s has a session: turns in a tree, repeats as they were",
  async (api) => {
    const sessions = folder();
    const engine = await startEngine({ version: "7" });
    engine.calls = [call];
    const before = await openRouter([engine], {}, { sessions });
    await before.ask("/sessions", { session_id: "a" });
    const answers = await episode(before, api);
    const called = { messages: { content: [{ type: "tool_use", input: { a: 1, b: 2 } }], stop_reason: "tool_use" } };
    const item = { responses: { output: [{ type: "function_call", arguments: '{"a": 1, "b": 2}' }] } };
    expect(answers[0]).toMatchObject({ ...called, ...item }[api]);
    const trace = await jsonOf(await before.ask("/sessions/a/trace"));
    expect(trace).toMatchObject({
      trace: [
        { parent: null, added: [said] },
        { parent: 0, added: [{ role: "tool", tool_call_id: "call_1", content: "3" }] },
      ],
    });
    await before.router.close(1_000);
    // Again, without any engine: a router that was started anew answers the same.
    const after = await openRouter([], {}, { sessions });
    expect(await episode(after, api)).toEqual(answers);
    const stream = { messages: { max_tokens: 8, messages: [said] }, responses: { input: [said] } }[api];
    const tools = {
      messages: [{ name: "add", input_schema: schema }],
      responses: [{ type: "function", name: "add", parameters: schema }],
    };
    const body = { model: "m", ...stream, tools: tools[api], stream: true };
    const events = await namedEvents(await after.ask(`/sessions/a/v1/${api}`, body));
    const [delta, last] = {
      messages: ["input_json_delta", "message_stop"],
      responses: ["response.function_call_arguments.delta", "response.completed"],
    }[api] as [string, string];
    expect(JSON.stringify(events)).toContain(delta);
    expect(events.at(-1)?.name).toBe(last);
  },
);

test("a session is open in each API to its own key alone", async () => {
  const [token, admin] = ["t".repeat(32), "a".repeat(32)];
  const { ask } = await openRouter([await startEngine()], {}, { sessions: folder(), inference: token, admin });
  const begun = await ask("/sessions", { session_id: "a" }, { authorization: `Bearer ${token}` });
  const { api_key: key } = (await begun.json()) as { api_key: string };
  const request = { model: "m", max_tokens: 8, messages: [said] };
  expect((await ask("/sessions/a/v1/messages", request, { "x-api-key": key })).status).toBe(200);
  const refused = await ask("/sessions/a/v1/messages", request, { "x-api-key": "k".repeat(32) });
  expect([refused.status, await jsonOf(refused)]).toMatchObject([401, { error: { type: "authentication_error" } }]);
});
