/** The routes of an agent's episode in three APIs, with tools and stop texts: each answers in its own words, and the trajectory has the drawn tokens. */
import { type ChatMessage, type Generated, silentLogger } from "@muster/base";
import { expect, onTestFinished, test } from "vitest";
import { type SamplerTokenizer, startEpisodeServer } from "../src/index.ts";

type Json = Record<string, unknown>;
const apis = ["chat/completions", "messages", "responses"] as const;
type Api = (typeof apis)[number];

/** One token a character; token 0 ends a turn and is no text. */
const encode = (text: string): Int32Array => Int32Array.from(text, (letter) => letter.charCodeAt(0));
const decode = (ids: ArrayLike<number>): string =>
  Array.from(ids, (id) => (id === 0 ? "" : String.fromCharCode(id))).join("");

/** A template that writes calls in other words than a model may. */
function chatText(messages: readonly ChatMessage[], tools: readonly Json[] = []): string {
  const said = messages.map(({ role, content, toolCalls = [] }) => {
    const calls = toolCalls.map(({ name, arguments: args }) => `<tool_call>${name} of ${args}</tool_call>`);
    return `|${role}:${[content, ...calls].join("")}\0`;
  });
  return `${tools.map((tool) => `|tool ${(tool.function as Json).name}`).join("")}${said.join("")}|assistant:`;
}

const tokenizer: SamplerTokenizer = {
  ...{ stopTokenIds: [0], encode, decode, toolParser: "hermes" },
  encodeChat: (messages, tools) => encode(chatText(messages, tools)),
};

function generatedOf(responseIds: Int32Array, finish: Generated["finish"]): Generated {
  const logprobs = new Float32Array(responseIds.length).fill(-1);
  return { responseIds, logprobs, finish, versionAtStart: 5, versionAtEnd: 5 };
}

/** An episode whose model says this, turn by turn. */
async function begun(lines: readonly string[], opened: SamplerTokenizer = tokenizer, goOn = Promise.resolve()) {
  const server = await startEpisodeServer({ logger: silentLogger });
  onTestFinished(() => server.close());
  const asked: string[] = [];
  const episode = await server.begin({
    ...{ name: "3-0-0", tokenizer: opened, model: "m", maxContext: 4_000 },
    sampling: { temperature: 1, maxNewTokens: 200, stopTokenIds: [0] },
    draw: async ({ promptIds, isOver = () => false }): Promise<Generated> => {
      const whole = encode(`${lines[asked.length]}\0`);
      asked.push(decode(promptIds));
      if (!isOver(generatedOf(whole.subarray(0, 2), "abort"))) await goOn;
      // An engine notices somewhat later that the rest is for nobody.
      const early = [...whole.keys()].find((length) => isOver(generatedOf(whole.subarray(0, length), "abort")));
      if (early !== undefined) return generatedOf(whole.subarray(0, early + 2), "abort");
      return generatedOf(whole, "stop");
    },
    failed: (error) => {
      throw error;
    },
  });
  const ask = async (api: Api, body: object): Promise<Json> => {
    const headers = { "content-type": "application/json", authorization: `Bearer ${episode.key}` };
    const answer = await fetch(`${episode.url}/v1/${api}`, { method: "POST", headers, body: JSON.stringify(body) });
    return { ...((await answer.json()) as Json), ...(answer.status === 200 ? {} : { status: answer.status }) };
  };
  const stream = (api: Api, body: object): Promise<Response> => {
    const headers = { "content-type": "application/json", authorization: `Bearer ${episode.key}` };
    const request = { method: "POST", headers, body: JSON.stringify({ ...body, stream: true }) };
    return fetch(`${episode.url}/v1/${api}`, request);
  };
  return { episode, ask, stream, asked };
}

const parameters = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } } };
const said = { role: "user", content: "1+2?" };

/** The request of a first turn with a tool. */
const requests: Readonly<Record<Api, Json>> = {
  "chat/completions": {
    ...{ model: "m", messages: [said] },
    tools: [{ type: "function", function: { name: "add", parameters } }],
  },
  messages: { model: "m", max_tokens: 150, messages: [said], tools: [{ name: "add", input_schema: parameters }] },
  responses: { model: "m", input: [said], tools: [{ type: "function", name: "add", parameters }] },
};

/** The calls of an answer, and the request that goes on with their results. */
function withResult(api: Api, request: Json, answer: Json): { readonly calls: unknown; readonly next: Json } {
  if (api === "messages") {
    const content = answer.content as Json[];
    const uses = content.filter(({ type }) => type === "tool_use");
    const result = { role: "user", content: [{ type: "tool_result", tool_use_id: uses[0]?.id, content: "3" }] };
    const messages = [said, { role: "assistant", content }, result];
    return { calls: uses.map(({ name, input }) => [name, input]), next: { ...request, messages } };
  }
  if (api === "responses") {
    const output = answer.output as Json[];
    const calls = output.filter(({ type }) => type === "function_call");
    const result = { type: "function_call_output", call_id: calls[0]?.call_id, output: "3" };
    const parsed = calls.map(({ name, arguments: args }) => [name, JSON.parse(`${args}`)]);
    return { calls: parsed, next: { ...request, input: [said, ...output, result] } };
  }
  const [{ message, finish_reason: finish }] = answer.choices as [{ message: Json; finish_reason: string }];
  expect(finish).toBe("tool_calls");
  const calls = message.tool_calls as { id: string; function: { name: string; arguments: string } }[];
  const result = { role: "tool", tool_call_id: calls[0]?.id, content: "3" };
  return {
    calls: calls.map(({ function: { name, arguments: args } }) => [name, JSON.parse(args)]),
    next: { ...request, messages: [said, message, result] },
  };
}

const call = '<tool_call>{"name":"add","arguments":{"a":1,"b":2}}</tool_call>';
const lines = [`I add\n${call}`, "it is 3"];

test.each(apis)("an agent of /v1/%s calls a tool in its episode, and both turns are one trajectory", async (api) => {
  const { episode, ask, asked } = await begun(lines);
  const first = await ask(api, requests[api]);
  const { calls, next } = withResult(api, requests[api], first);
  expect(calls).toEqual([["add", { a: 1, b: 2 }]]);
  expect(JSON.stringify(first)).toContain('"I add"');
  expect(JSON.stringify(await ask(api, next))).toContain('"it is 3"');
  // Both turns are stored: asked again, nothing is drawn.
  expect(await ask(api, requests[api])).toEqual(first);
  expect(asked).toEqual([
    "|tool add|user:1+2?|assistant:",
    `|tool add|user:1+2?|assistant:${lines[0]}|tool:3|assistant:`,
  ]);
  const { turns, samples, messages } = await episode.finish();
  expect({ turns, samples: samples.length }).toEqual({ turns: 2, samples: 1 });
  const [{ tokens, promptLength, lossMask } = { tokens: [], promptLength: 0, lossMask: [] }] = samples;
  const drawn = tokens.slice(promptLength).filter((_, i) => lossMask[i] === 1);
  expect(drawn).toEqual([...encode(`${lines[0]}\0${lines[1]}\0`)]);
  expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
  expect(messages[1]).toMatchObject({ content: "I add", toolCalls: [{ name: "add", arguments: '{"a":1,"b":2}' }] });
});

test.each(apis)(
  "an episode of /v1/%s that is played again, because its sampler died, has the same answers",
  async (api) => {
    const played = async () => {
      const { ask } = await begun(lines);
      const first = await ask(api, requests[api]);
      const { next } = withResult(api, requests[api], first);
      const shown = [first, await ask(api, next)];
      return shown.map(({ created: _, created_at: __, ...answer }) => answer);
    };
    expect(await played()).toEqual(await played());
  },
);

test.each(apis)(
  "an agent of /v1/%s hears its engine token by token, and the turn is the one of a whole answer",
  async (api) => {
    let letOn = (): void => {};
    const goOn = new Promise<void>((resolve) => {
      letOn = resolve;
    });
    const { episode, ask, stream } = await begun(["abcdef"], tokenizer, goOn);
    const { model, messages, input, max_tokens } = requests[api];
    const request = JSON.parse(JSON.stringify({ model, messages, input, max_tokens })) as Json;
    const answer = await stream(api, request);
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    let all = "";
    while (!all.includes('"ab"')) all += Buffer.from((await reader.read()).value ?? []).toString();
    letOn();
    for (let read = await reader.read(); !read.done; read = await reader.read())
      all += Buffer.from(read.value).toString();
    expect(all).toContain('"cdef"');
    expect(JSON.stringify(await ask(api, request))).toContain('"abcdef"');
    const { turns, samples } = await episode.finish();
    expect([turns, samples[0]?.lossMask]).toEqual([1, [1, 1, 1, 1, 1, 1, 1]]);
  },
);

test("a character of several tokens, and a stop text that goes on with one, are said once they are whole", async () => {
  const bytes: SamplerTokenizer = {
    ...{ stopTokenIds: [0], encode: (text) => Int32Array.from(Buffer.from(text)) },
    decode: (ids) => Buffer.from(Array.from(ids).filter((id) => id !== 0)).toString(),
  };
  const latin = (text: string): string => Buffer.from(text).toString("latin1");
  const { stream, ask } = await begun([latin("ü🙂 né!")], bytes);
  const request = { model: "m", max_tokens: 150, messages: [said], stop_sequences: ["né"] };
  const all = await (await stream("messages", request)).text();
  const texts = [...all.matchAll(/"text_delta","text":"([^"]*)"/g)].map(([, text]) => text);
  expect([texts.join(""), all.includes("message_stop")]).toEqual(["ü🙂 ", true]);
  expect(await ask("messages", request)).toMatchObject({ content: [{ text: "ü🙂 " }], stop_sequence: "né" });
});

test("a stop text ends an answer, and the trajectory has the tokens up to it: those that the next turn goes on from", async () => {
  const { episode, ask, asked } = await begun(["think Obs: I made that up", "ok"]);
  const request = { model: "m", max_tokens: 150, messages: [said], stop_sequences: ["Obs"] };
  const first = await ask("messages", request);
  expect(first).toMatchObject({
    ...{ content: [{ type: "text", text: "think " }], stop_reason: "stop_sequence", stop_sequence: "Obs" },
    usage: { output_tokens: "think Obs".length },
  });
  const more = [...request.messages, { role: "assistant", content: "think " }, { role: "user", content: ": 3" }];
  await ask("messages", { ...request, messages: more });
  expect(asked[1]).toBe("|user:1+2?|assistant:think Obs|user:: 3|assistant:");
  const { samples } = await episode.finish();
  expect(samples).toHaveLength(1);
  const mask = samples[0]?.lossMask ?? [];
  expect(mask.slice(0, "think Obs".length)).toEqual(Array.from("think Obs", () => 1));
  expect(mask.reduce((sum, bit) => sum + bit, 0)).toBe("think Obs".length + "ok\0".length);
});

test("calls that can not be read stay text, and one call alone is what is drawn when only one may be made", async () => {
  const broken = '<tool_call>{"name": "add", "arguments": </tool_call>';
  const { ask } = await begun([broken, `${call}${call}`, `${call}${call}`]);
  const request = requests["chat/completions"];
  const choiceOf = (answer: Json) => (answer.choices as { message: Json; finish_reason: string }[])[0];
  expect(choiceOf(await ask("chat/completions", request))).toMatchObject({
    message: { content: broken },
    finish_reason: "stop",
  });
  const both = choiceOf(await ask("chat/completions", { ...request, seed: 1 }))?.message.tool_calls as { id: string }[];
  expect(new Set(both.map(({ id }) => id)).size).toBe(2);
  const one = await ask("chat/completions", { ...request, seed: 2, parallel_tool_calls: false });
  expect(choiceOf(one)).toMatchObject({ message: { content: null, tool_calls: [{}] }, finish_reason: "tool_calls" });
  expect(one.usage).toMatchObject({ completion_tokens: call.length });
  const none = await ask("chat/completions", { ...request, tool_choice: "none" });
  expect(none).toMatchObject({ choices: [{ message: { role: "assistant" } }] });
});

test.each([
  [{ tool_choice: "required" }, 'tool_choice "required": this sampler can not make a model call a tool'],
  [{ response_format: { type: "json_object" } }, 'response_format of type "json_object"'],
  [{ stop: "" }, null],
  [{ stop: ["a", 3] }, "stop must be a text, or a list of at most 16"],
  [{ tools: [{ type: "web_search" }] }, "tools.0 must be an object with type"],
])("a request that free drawing can not serve is refused by its field: %j", async (more, message) => {
  const { ask } = await begun(["a"]);
  const answer = await ask("chat/completions", { ...requests["chat/completions"], ...more });
  if (message === null) expect(answer.status).toBeUndefined();
  else expect(answer).toMatchObject({ status: 400, message: expect.stringContaining(message) });
});

test("a job whose tokenizer has no chat template says so to an agent with tools", async () => {
  const { encodeChat: _, ...plain } = tokenizer;
  for (const opened of [plain, { ...tokenizer, toolParser: null }]) {
    const { ask } = await begun(["a"], opened);
    const answer = await ask("messages", requests.messages);
    expect(answer).toMatchObject({
      status: 400,
      error: { message: expect.stringMatching(/^tools: .*rollout\.tool_parser/) },
    });
  }
});

test("a conversation that the chat template refuses is the agent's to mend, and no failure of the engine", async () => {
  const encodeChat = (): never => {
    throw new Error("roles must alternate");
  };
  const { ask } = await begun(["a"], { ...tokenizer, encodeChat });
  const answer = await ask("chat/completions", { model: "m", messages: [said] });
  expect(answer).toMatchObject({
    status: 400,
    message: "messages: the chat template refuses them: roles must alternate",
  });
});
