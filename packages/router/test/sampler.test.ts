import { type Generated, silentLogger } from "@muster/base";
import { expect, onTestFinished, test } from "vitest";
import { ChatStream } from "../src/core/chat-stream.ts";
import { type SamplerEngine, type SamplerRequest, type SamplerTokenizer, startSamplerServer } from "../src/index.ts";
import { responseOf } from "./support/fake-engine.ts";
import { eventsOf, openRouter } from "./support/open-router.ts";

/** Characters `a` to `z` as tokens 0 to 25; `z` ends a response. */
const tokenizer: SamplerTokenizer = {
  stopTokenIds: [25],
  encode: (text) => Int32Array.from(text, (character) => character.charCodeAt(0) - 97),
  decode: (ids) => Array.from(ids, (id) => String.fromCharCode(97 + id)).join(""),
};

/** Draws one token a millisecond, each a function of all before; calls one after the other. */
class SlowEngine implements SamplerEngine {
  version: number | null = 3;
  calls: number[] = [];
  readonly aborted = new Set<string>();
  readonly #drawn = new Map<string, Generated>();
  info = () => ({
    kind: "slow",
    build: "1",
    modelId: "slow",
    vocab: 26,
    maxContext: 64,
    ranks: 1,
    logprobs: "raw" as const,
  });
  weightVersion = () => this.version;
  drawn = (id: string) => [this.#drawn.get(id)].filter((one) => one !== undefined);
  async abort(ids: readonly string[]) {
    for (const id of ids) this.aborted.add(id);
  }
  async health() {
    return { ok: true };
  }
  async generate(requests: readonly SamplerRequest[], signal: AbortSignal) {
    this.calls.push(requests.length);
    return await Promise.all(requests.map((request) => this.#draw(request, signal)));
  }
  async #draw(
    { requestId, promptIds, n, sampling }: SamplerRequest,
    signal: AbortSignal,
  ): Promise<readonly Generated[]> {
    const whole = responseOf(Array.from(promptIds), sampling.maxNewTokens).map((id) => id % 25);
    const version = this.version ?? 0;
    const after = (count: number, finish: Generated["finish"]): Generated => ({
      responseIds: Int32Array.from(whole.slice(0, count)),
      logprobs: new Float32Array(count).fill(-1),
      ...{ finish, versionAtStart: version, versionAtEnd: version },
    });
    for (let count = 1; count < whole.length; count++) {
      await new Promise((resolve) => setTimeout(resolve, 2));
      if (signal.aborted) throw signal.reason;
      if (this.aborted.has(requestId)) return [after(count, "abort")];
      this.#drawn.set(requestId, after(count, "abort"));
    }
    return Array.from({ length: n }, () => after(whole.length, "length"));
  }
}

async function serve(engine = new SlowEngine(), opened = tokenizer) {
  const server = await startSamplerServer({ host: "127.0.0.1", port: 0, token: null, logger: silentLogger });
  onTestFinished(() => server.close());
  server.open(engine, opened);
  const ask = (path: string, body: unknown) =>
    fetch(`${server.url}${path}`, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json" },
    });
  return { server, engine, ask };
}

const ids = [1, 2, 3];
const whole = responseOf(ids, 6).map((id) => id % 25);

test("a sampler answers as SGLang does, with text, tokens, log-probs and the version of its weights", async () => {
  const { ask } = await serve();
  const answer = await ask("/generate", {
    input_ids: ids,
    return_logprob: true,
    sampling_params: { max_new_tokens: 6 },
  });
  expect(await answer.json()).toMatchObject({
    text: tokenizer.decode(Int32Array.from(whole)),
    output_ids: whole,
    meta_info: {
      finish_reason: { type: "length", length: 6 },
      ...{ prompt_tokens: 3, completion_tokens: 6, weight_version: "3" },
      output_token_logprobs: whole.map((id) => [-1, id, null]),
      weight_versions: [{ version: "3", start: 0, end: 6 }],
    },
  });
  const two = (await (await ask("/generate", { text: "bcd", sampling_params: { n: 2 } })).json()) as unknown[];
  expect(two).toHaveLength(2);
});

test("a sampler answers as OpenAI does, whole and as a stream", async () => {
  const { ask } = await serve();
  const text = tokenizer.decode(Int32Array.from(whole));
  const completion = await (await ask("/v1/completions", { prompt: "bcd", max_tokens: 6, model: "any" })).json();
  expect(completion).toMatchObject({
    choices: [{ text, finish_reason: "length" }],
    ...{ usage: { prompt_tokens: 3, completion_tokens: 6, total_tokens: 9 }, metadata: { weight_version: "3" } },
  });
  const messages = [{ role: "user", content: "bcd" }];
  const chat = await (await ask("/v1/chat/completions", { messages, max_completion_tokens: 6 })).json();
  expect(chat).toMatchObject({ choices: [{ message: { role: "assistant", content: text } }] });
  const { data, isDone } = await eventsOf(
    await ask("/v1/chat/completions", { messages, max_tokens: 40, stream: true }),
  );
  const pieces = (data as { choices: { delta: { content: string } }[] }[]).map(
    ({ choices }) => choices[0]?.delta.content,
  );
  expect(pieces.length).toBeGreaterThan(1);
  expect(pieces.join("")).toHaveLength(40);
  expect(isDone).toBe(true);
});

test.each([
  ["/generate", { input_ids: [[1], [2]] }, /^input_ids must be one text or one list/],
  [
    "/generate",
    { text: "a", sampling_params: { regex: "a*" } },
    "sampling_params.regex is not supported by this sampler",
  ],
  ["/generate", { text: "a", sampling_params: { max_new_tokens: 0 } }, /^max_new_tokens must be/],
  ["/generate", { text: "" }, "text has no tokens"],
  ["/generate", { text: "a", stream: true, sampling_params: { n: 2 } }, "n is 2; a stream has one response"],
  ["/v1/completions", { prompt: "a", max_tokens: "6" }, /^max_new_tokens must be/],
  ["/v1/chat/completions", { messages: [{ role: "user" }] }, /^messages must have a role/],
  [
    "/v1/chat/completions",
    { messages: [{ role: "user", content: "a" }], tools: [{}] },
    /^tools: this job's tokenizer has no chat template that writes them/,
  ],
] as const)("%s with %j is refused by name, and nothing is left out silently", async (path, body, says) => {
  const { ask, engine } = await serve();
  const answer = await ask(path, body);
  const { error } = (await answer.json()) as { error: { message: string } };
  expect([answer.status, error.message]).toEqual([400, typeof says === "string" ? says : expect.stringMatching(says)]);
  expect(engine.calls).toEqual([]);
});

test("requests of one moment are drawn in one call", async () => {
  const { ask, engine } = await serve();
  const answers = Array.from({ length: 8 }, () =>
    ask("/generate", { input_ids: ids, sampling_params: { max_new_tokens: 9 } }),
  );
  for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200);
  expect(engine.calls.length).toBeLessThanOrEqual(3);
});

test("a client that leaves ends its request at the engine", async () => {
  const { server, engine } = await serve();
  const leave = new AbortController();
  const body = JSON.stringify({ input_ids: ids, stream: true, sampling_params: { max_new_tokens: 60 } });
  const headers = { "content-type": "application/json" };
  await fetch(`${server.url}/generate`, { method: "POST", body, headers, signal: leave.signal });
  leave.abort();
  while (engine.aborted.size === 0) await new Promise((resolve) => setTimeout(resolve, 2));
});

test("a sampler without weights, or whose engine is gone, is 503 until it has them", async () => {
  const engine = new SlowEngine();
  engine.version = null;
  const { ask, server } = await serve(engine);
  const health = async () => (await fetch(`${server.url}/health_generate`)).status;
  expect([await health(), (await ask("/generate", { input_ids: ids })).status]).toEqual([503, 503]);
  engine.version = 0;
  expect([await health(), (await ask("/generate", { input_ids: ids })).status]).toEqual([200, 200]);
  server.withdraw(engine);
  expect([await health(), (await ask("/generate", { input_ids: ids })).status]).toEqual([503, 503]);
});

test("a router goes on with a stream of one sampler at another one", async () => {
  const [first, second] = [await serve(), await serve()];
  second.engine.version = 4;
  const { ask, router, until } = await openRouter([first.server.url, second.server.url]);
  await until("both serve", (workers) => workers.every(({ state, resumes }) => state === "healthy" && resumes));
  const asked = await ask("/generate", { input_ids: ids, stream: true, sampling_params: { max_new_tokens: 60 } });
  await until("a request is under way", (workers) => workers.some(({ active }) => active === 1));
  const at = router.workers()[0]?.active === 1 ? first : second;
  at.server.withdraw(at.engine);
  const { data, isDone } = await eventsOf(asked);
  const { output_ids: drawn, meta_info: meta } = data.at(-1) as {
    output_ids: number[];
    meta_info: { weight_versions: { start: number; end: number }[] };
  };
  expect(isDone).toBe(true);
  expect(drawn).toHaveLength(60);
  expect(meta.weight_versions).toHaveLength(2);
  expect(meta.weight_versions[1]).toMatchObject({ start: meta.weight_versions[0]?.end, end: 60 });
});

test("a chat answer has tokens and log-probs when it is asked for them, and so has a stream, each once", async () => {
  const { ask } = await serve();
  const chat = { messages: [{ role: "user", content: "abc" }], max_tokens: 3, logprobs: true, return_token_ids: true };
  const ids = responseOf([0, 1, 2], 3).map((id) => id % 25);
  const content = ids.map((id) => ({ token: tokenizer.decode(Int32Array.of(id)), logprob: -1 }));
  expect(await (await ask("/v1/chat/completions", chat)).json()).toMatchObject({
    prompt_token_ids: [0, 1, 2],
    choices: [{ token_ids: ids, logprobs: { content }, finish_reason: "length" }],
  });
  const asked = { ...chat, max_tokens: 40, stream: true, stream_options: { include_usage: true } };
  const { data, isDone } = await eventsOf(await ask("/v1/chat/completions", asked));
  const stream = new ChatStream();
  const texts = data.map((one) => stream.take(one as Record<string, unknown>));
  const whole = await (await ask("/v1/chat/completions", { ...chat, max_tokens: 40 })).json();
  expect(isDone).toBe(true);
  expect(texts.filter((text) => text !== "").length).toBeGreaterThan(1);
  const { choices, ...rest } = whole as { choices: [{ logprobs: { content: { logprob: number }[] } }] };
  const [{ logprobs, ...choice }] = choices;
  // Of each token's log-probability the number is kept: what else is said of it the answer has already.
  const numbers = { content: logprobs.content.map(({ logprob }) => ({ logprob })) };
  expect(stream.whole()).toEqual({
    ...{ ...rest, id: expect.any(String), created: expect.any(Number) },
    choices: [{ ...choice, logprobs: numbers }],
  });
});

test("a stop text ends a response where it stands, in every form of answer, and nothing is drawn behind it", async () => {
  const engine = new SlowEngine();
  const { ask } = await serve(engine);
  const long = responseOf(ids, 40).map((id) => id % 25);
  const text = tokenizer.decode(Int32Array.from(long));
  const stop = text.slice(4, 7);
  const before = text.slice(0, text.indexOf(stop));
  const upTo = before.length + stop.length;
  const sampling = { stop, max_new_tokens: 40 };
  const native = await ask("/generate", { input_ids: ids, sampling_params: sampling, return_logprob: true });
  expect(await native.json()).toMatchObject({
    ...{ text: before, output_ids: long.slice(0, upTo) },
    meta_info: { finish_reason: { type: "stop", matched: stop }, completion_tokens: upTo },
  });
  const completion = await ask("/v1/completions", { prompt: "bcd", max_tokens: 40, stop: ["nothing", stop] });
  expect(await completion.json()).toMatchObject({
    choices: [{ text: before, finish_reason: "stop", stop_reason: stop }],
    usage: { completion_tokens: upTo },
  });
  const chat = { messages: [{ role: "user", content: "bcd" }], max_tokens: 40, stop, stream: true };
  const { data, isDone } = await eventsOf(await ask("/v1/chat/completions", chat));
  const choices = (data as { choices: [{ delta: { content: string }; finish_reason: string | null }] }[]).map(
    (event) => event.choices[0],
  );
  expect(choices.map(({ delta }) => delta.content).join("")).toBe(before);
  expect([choices.at(-1)?.finish_reason, isDone]).toEqual(["stop", true]);
  expect(engine.aborted.size).toBe(3);
});

test("a character of several tokens is said once all of them are drawn, in each form of stream", async () => {
  const bytes = Buffer.from("é東🙂");
  // Token `id` is a byte of the text, so every response is cut-off characters and whole ones.
  const decode = (ids: Int32Array): string =>
    Buffer.from(Array.from(ids, (_, i) => bytes[i % bytes.length] as number)).toString();
  const { ask } = await serve(new SlowEngine(), { ...tokenizer, decode });
  const chat = { messages: [{ role: "user", content: "abc" }], max_tokens: 45, stream: true };
  const { data } = await eventsOf(await ask("/v1/chat/completions", chat));
  const stream = new ChatStream();
  expect(data.map((one) => stream.take(one as Record<string, unknown>)).join("")).toBe("é東🙂".repeat(5));
  const native = { input_ids: ids, stream: true, sampling_params: { max_new_tokens: 45 } };
  const texts = (await eventsOf(await ask("/generate", native))).data.map((one) => (one as { text: string }).text);
  expect(texts.filter((text) => text.includes("\ufffd"))).toEqual([]);
});
