/** The client libraries of OpenAI and Anthropic as agents use them: plain and streamed, with tools over several turns, and what they throw. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { expect, onTestFinished, test } from "vitest";
import { openRouter, startEngine } from "./support/open-router.ts";

const [token, admin] = ["t".repeat(32), "a".repeat(32)];
const schema = { type: "object" as const, properties: { a: { type: "number" as const } } };
const add = { name: "add", description: "adds", parameters: schema };
const call = { id: "call_1", type: "function", function: { name: "add", arguments: '{"a": 1}' } };
const [model, max_tokens] = ["m", 8];
const user = { role: "user" as const, content: "one" };

/** A session of a router with tokens, and both clients of it. */
async function agent() {
  const sessions = mkdtempSync(join(tmpdir(), "muster-clients-"));
  onTestFinished(() => rmSync(sessions, { recursive: true }));
  const engine = await startEngine({ version: "7", after: 3 });
  const opened = await openRouter([engine], {}, { sessions, inference: token, admin });
  const asked = await opened.ask("/sessions", { session_id: "a" }, { authorization: `Bearer ${token}` });
  const { base_url: baseURL, api_key: apiKey } = (await asked.json()) as { base_url: string; api_key: string };
  const openai = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const anthropic = new Anthropic({ baseURL: baseURL.replace("/v1", ""), apiKey, maxRetries: 0 });
  return { engine, openai, anthropic, ...opened };
}

test("OpenAI's client: chat with tools over two turns, streamed and whole, is the same conversation", async () => {
  const { engine, openai } = await agent();
  engine.calls = [call, { ...call, id: "call_2" }];
  const tools = [{ type: "function" as const, function: add }];
  const first = { model, messages: [user], tools };
  const stream = openai.chat.completions.stream({ ...first, stream_options: { include_usage: true } });
  const streamed = await stream.finalChatCompletion();
  expect(streamed).toMatchObject({
    usage: { prompt_tokens: 3, completion_tokens: 4 },
    choices: [{ finish_reason: "stop", message: { content: null, tool_calls: [call, { ...call, id: "call_2" }] } }],
  });
  const whole = await openai.chat.completions.create(first);
  expect(whole.choices[0]?.message.tool_calls).toMatchObject(engine.calls);
  engine.calls = [];
  const results = ["call_1", "call_2"].map((id) => ({ role: "tool" as const, tool_call_id: id, content: "3" }));
  const [choice] = streamed.choices;
  const { role, content, tool_calls } = (choice as (typeof streamed.choices)[number]).message;
  const messages = [user, { role, content, ...(tool_calls ? { tool_calls } : {}) }, ...results];
  let said = "";
  const second = openai.chat.completions.stream({ model, messages, tools }).on("content", (piece) => {
    said += piece;
  });
  expect(await second.finalContent()).toBe(said);
  expect((await openai.chat.completions.create({ model, messages, tools })).choices[0]?.message.content).toBe(said);
  expect([said.length, engine.served]).toEqual([4, 2]);
});

test("OpenAI's client: responses with tools over two turns, streamed and whole, are the same conversation", async () => {
  const { engine, openai } = await agent();
  engine.calls = [call];
  const tools = [{ type: "function" as const, strict: false, ...add }];
  const streamed = await openai.responses.stream({ model, input: [user], tools }).finalResponse();
  expect(streamed).toMatchObject({
    status: "completed",
    usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 },
  });
  expect(streamed.output).toMatchObject([{ type: "function_call", call_id: "call_1", arguments: '{"a": 1}' }]);
  const whole = await openai.responses.create({ model, input: [user], tools });
  expect(whole.output).toMatchObject([{ type: "function_call", id: streamed.output[0]?.id }]);
  engine.calls = [];
  const result = { type: "function_call_output" as const, call_id: "call_1", output: "3" };
  const input = [user, ...whole.output, result] as OpenAI.Responses.ResponseInput;
  let said = "";
  const second = openai.responses.stream({ model, input, tools }).on("response.output_text.delta", ({ delta }) => {
    said += delta;
  });
  expect((await second.finalResponse()).output_text).toBe(said);
  expect((await openai.responses.create({ model, input, tools })).output_text).toBe(said);
  expect([said.length, engine.served]).toEqual([4, 2]);
});

test("Anthropic's client: messages with tools over two turns, streamed and whole, are the same conversation", async () => {
  const { engine, anthropic } = await agent();
  engine.calls = [call];
  const tools = [{ name: "add", input_schema: schema }];
  const first = { model, max_tokens, messages: [user], tools };
  const streamed = await anthropic.messages.stream(first).finalMessage();
  expect(streamed).toMatchObject({
    content: [{ type: "tool_use", id: "call_1", name: "add", input: { a: 1 } }],
    ...{ stop_reason: "tool_use", usage: { input_tokens: 3, output_tokens: 4 } },
  });
  expect(await anthropic.messages.create(first)).toMatchObject({ id: streamed.id, content: [{ id: "call_1" }] });
  engine.calls = [];
  const result = { type: "tool_result" as const, tool_use_id: "call_1", content: "3" };
  const messages = [
    user,
    { role: "assistant" as const, content: streamed.content },
    { role: "user" as const, content: [result] },
  ];
  let said = "";
  const second = anthropic.messages.stream({ ...first, messages }).on("text", (piece) => {
    said += piece;
  });
  expect(await second.finalText()).toBe(said);
  expect((await anthropic.messages.create({ ...first, messages })).content).toMatchObject([
    { type: "text", text: said },
  ]);
  expect([said.length, engine.served]).toEqual([4, 2]);
});

test("OpenAI's client: models.list() below the base URL of a session is what the router answers, for the session's key alone", async () => {
  const { openai, ask, url } = await agent();
  const listed = await openai.models.list();
  expect(listed.data).toEqual([{ id: "fake" }]);
  const ofRouter = await ask("/v1/models", undefined, { authorization: `Bearer ${token}` });
  expect(await ofRouter.json()).toEqual({ object: "list", data: listed.data });
  const stranger = new OpenAI({ baseURL: `${url}/sessions/a/v1`, apiKey: "s".repeat(32), maxRetries: 0 });
  expect(await thrownBy(stranger.models.list())).toBeInstanceOf(OpenAI.AuthenticationError);
  const nobody = new OpenAI({ baseURL: `${url}/sessions/b/v1`, apiKey: token, maxRetries: 0 });
  expect(await thrownBy(nobody.models.list())).toBeInstanceOf(OpenAI.NotFoundError);
});

/** What a promise is rejected with. */
const thrownBy = async (work: PromiseLike<unknown>): Promise<unknown> => {
  try {
    return await work;
  } catch (error) {
    return error;
  }
};

test("errors are those of the libraries, with the sentence of the router", async () => {
  const { engine, openai, anthropic } = await agent();
  const [chat, response, message] = [
    (more: object) => thrownBy(openai.chat.completions.create({ model, messages: [user], ...more })),
    (more: object) => thrownBy(openai.responses.create({ model, input: "a", ...more })),
    (more: object) => thrownBy(anthropic.messages.create({ model, max_tokens, messages: [user], ...more })),
  ];
  expect(await chat({ n: 2 })).toBeInstanceOf(OpenAI.BadRequestError);
  expect(await chat({ n: 2 })).toMatchObject({ message: expect.stringContaining("n must be 1") });
  expect(await response({ background: true })).toBeInstanceOf(OpenAI.BadRequestError);
  expect(await message({ container: "x" })).toBeInstanceOf(Anthropic.BadRequestError);
  expect(await message({ container: "x" })).toMatchObject({ error: { error: { type: "invalid_request_error" } } });
  const others = { maxRetries: 0, apiKey: "k".repeat(32) };
  const stranger = new OpenAI({ ...others, baseURL: openai.baseURL });
  expect(await thrownBy(stranger.responses.create({ model, input: "a" }))).toBeInstanceOf(OpenAI.AuthenticationError);
  const other = new Anthropic({ ...others, baseURL: anthropic.baseURL });
  expect(await thrownBy(other.messages.create({ model, max_tokens, messages: [user] }))).toBeInstanceOf(
    Anthropic.AuthenticationError,
  );
  engine.mode = "500";
  for (const failed of [await chat({ seed: 1 }), await response({ seed: 1 })])
    expect(failed).toBeInstanceOf(OpenAI.InternalServerError);
  expect(await message({ seed: 1 })).toBeInstanceOf(Anthropic.InternalServerError);
});

test("a stream that breaks off in its middle is an error of each library, and never an answer", async () => {
  const { engine, url } = await agent();
  engine.mode = "error in the stream";
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 });
  const anthropic = new Anthropic({ baseURL: url, apiKey: token, maxRetries: 0 });
  const chat = openai.chat.completions.stream({ model, messages: [user] });
  expect(await thrownBy(chat.finalContent())).toBeInstanceOf(OpenAI.OpenAIError);
  const response = await openai.responses.stream({ model, input: "a" }).finalResponse();
  expect(response).toMatchObject({
    ...{ status: "failed", error: { code: "server_error", message: expect.stringContaining("scheduler died") } },
  });
  const message = await thrownBy(anthropic.messages.stream({ model, max_tokens, messages: [user] }).finalMessage());
  expect(message).toBeInstanceOf(Anthropic.APIError);
  expect(message).toMatchObject({ error: { error: { message: expect.stringContaining("scheduler died") } } });
});
