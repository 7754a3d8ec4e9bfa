/** Streams of turns: token by token, in the events of each API; what an agent acts on leaves only once the turn is on disk. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@muster/base";
import { expect, onTestFinished, test } from "vitest";
import { chatEvents } from "../src/core/chat-events.ts";
import { routerDefaults } from "../src/index.ts";
import { sendStream } from "../src/routes/dialect-routes.ts";
import { GrowingAnswer } from "../src/routes/growing-answer.ts";
import { openHttpApp, scopedTo } from "../src/routes/http-app.ts";
import type { FakeOptions } from "./support/fake-engine.ts";
import { type OpenedRouter, openRouter, startEngine } from "./support/open-router.ts";

type Json = Record<string, unknown>;
type Api = "chat/completions" | "messages" | "responses";

const apis: readonly Api[] = ["chat/completions", "messages", "responses"];
const said = { role: "user", content: "one" };
const schema = { type: "object", properties: { a: { type: "number" } } };
const call = { id: "call_1", type: "function", function: { name: "add", arguments: '{"a": 1}' } };

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "muster-streams-"));
  onTestFinished(() => rmSync(made, { recursive: true }));
  return made;
}

const bodyOf = (api: Api, more: Json = {}): Json => ({
  ...{ model: "m", ...(api === "responses" ? { input: [said] } : { messages: [said] }) },
  ...(api === "messages" ? { max_tokens: 8 } : {}),
  ...more,
});

/** A stream that is read as it comes. */
async function reading(answer: Response): Promise<{
  readonly soFar: () => string;
  /** Reads on until this holds, or stands in it. */
  readonly until: (holds: string | ((all: string) => boolean)) => Promise<void>;
  /** All of it; `isBroken` when the connection broke off. */
  readonly rest: () => Promise<{ readonly all: string; readonly isBroken: boolean }>;
}> {
  expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let all = "";
  const more = async (): Promise<boolean> => {
    const { value, done } = await reader.read();
    all += decoder.decode(value, { stream: true });
    return !done;
  };
  return {
    soFar: () => all,
    until: async (holds) => {
      const isThere = typeof holds === "string" ? () => all.includes(holds) : () => holds(all);
      while (!isThere()) if (!(await more())) throw new Error(`${holds} did not come: ${all}`);
    },
    rest: async () => {
      try {
        while (await more());
        return { all, isBroken: false };
      } catch {
        return { all, isBroken: true };
      }
    },
  };
}

/** The text that the events of each API say. */
function textOf(all: string): string {
  const data = all.split("\n").filter((line) => line.startsWith("data: {"));
  return data
    .map((line) => JSON.parse(line.slice(6)) as { type?: string; delta?: Json | string; choices?: { delta: Json }[] })
    .map(({ type, delta, choices }) =>
      typeof delta === "string" && type === "response.output_text.delta"
        ? delta
        : ((delta as Json | undefined)?.text ?? choices?.[0]?.delta.content ?? ""),
    )
    .join("");
}

/** The text of a whole answer of each API. */
function saidIn(answer: Json): unknown {
  const { content, output, choices } = answer as {
    content?: { text: string }[];
    output?: { content: { text: string }[] }[];
    choices?: { message: Json }[];
  };
  return content?.[0]?.text ?? output?.[0]?.content[0]?.text ?? choices?.[0]?.message.content;
}

const ends: Readonly<Record<Api, string>> = {
  ...{ "chat/completions": "[DONE]", messages: "message_stop", responses: "response.completed" },
};
const errorsOf: Readonly<Record<Api, string>> = {
  "chat/completions": '"code":"engine_lost"',
  messages: "event: error\n",
  responses: "event: response.failed\n",
};

/** An engine that stops behind its first events until it is let on, and a router with a session. */
async function paused(
  options: FakeOptions = {},
  config: Parameters<typeof openRouter>[1] = {},
  more: Parameters<typeof openRouter>[2] = {},
) {
  const engine = await startEngine({ after: 2, version: "7", ...options });
  let letOn = (): void => {};
  engine.goOn = new Promise((resolve) => {
    letOn = resolve;
  });
  onTestFinished(() => letOn());
  const opened = await openRouter([engine], config, { sessions: folder(), ...more });
  await opened.ask("/sessions", { session_id: "a" });
  const at = (api: Api): string => `/sessions/a/v1/${api}`;
  return { engine, letOn: () => letOn(), at, ...opened };
}

const turnsIn = async ({ ask }: Pick<OpenedRouter, "ask">): Promise<unknown> =>
  ((await (await ask("/sessions/a")).json()) as Json).turns;

const hasText = (all: string): boolean => textOf(all) !== "";

test.each(apis)("/v1/%s says each token as it is drawn, and its end once the turn is on disk", async (api) => {
  const { ask, at, letOn } = await paused();
  const stream = await reading(await ask(at(api), bodyOf(api, { stream: true })));
  await stream.until(hasText);
  expect([textOf(stream.soFar()).length, await turnsIn({ ask })]).toEqual([1, 0]);
  letOn();
  await stream.until(ends[api]);
  expect(await turnsIn({ ask })).toBe(1);
  const whole = (await (await ask(at(api), bodyOf(api))).json()) as Json;
  expect(textOf((await stream.rest()).all)).toBe(saidIn(whole));
});

test.each(apis)("/v1/%s says no call of a tool that is not on disk", async (api) => {
  const { ask, at, engine, letOn } = await paused({ after: 6 });
  engine.calls = [call, { ...call, id: "call_2" }];
  const tool = api === "messages" ? { name: "add", input_schema: schema } : { name: "add", parameters: schema };
  const tools = [api === "chat/completions" ? { type: "function", function: tool } : { type: "function", ...tool }];
  const asked = bodyOf(api, { stream: true, tools: api === "messages" ? [tool] : tools });
  const stream = await reading(await ask(at(api), asked));
  await stream.until("\n\n");
  expect(stream.soFar()).not.toContain("call_1");
  letOn();
  await stream.until("call_1");
  expect(await turnsIn({ ask })).toBe(1);
  const { all } = await stream.rest();
  expect(all).toContain("call_2");
  expect(all).toContain(ends[api]);
});

test("a stream that leaves tokens out is no answer: the whole is asked for, and recorded with all of them", async () => {
  const { ask, at, engine, letOn } = await paused();
  letOn();
  engine.calls = [call];
  engine.swallowed = 2;
  const asked = bodyOf("chat/completions", { stream: true });
  const { all } = await (await reading(await ask(at("chat/completions"), asked))).rest();
  const { trace } = (await (await ask("/sessions/a/trace")).json()) as { trace: { completion_token_ids: number[] }[] };
  expect(trace.map(({ completion_token_ids: ids }) => ids.length)).toEqual([4]);
  expect([all.includes("call_1"), all.includes("[DONE]"), engine.served]).toEqual([true, true, 2]);
});

test.each(apis)("/v1/%s: an engine that is lost in the middle of a turn is not noticed", async (api) => {
  const { ask, at, engine, letOn } = await paused();
  engine.mode = "dies in the stream";
  const stream = await reading(await ask(at(api), bodyOf(api, { stream: true })));
  await stream.until(hasText);
  letOn();
  const { all, isBroken } = await stream.rest();
  expect([isBroken, all.includes(ends[api]), engine.served]).toEqual([false, true, 2]);
  expect(textOf(all)).toBe(saidIn((await (await ask(at(api), bodyOf(api))).json()) as Json));
});

test("a turn is not drawn anew when the retries of all requests are used up: its stream says so, and nothing is recorded", async () => {
  const { ask, at, engine, letOn } = await paused({}, { retry: { reserve: 0 } });
  engine.mode = "dies in the stream";
  const stream = await reading(await ask(at("messages"), bodyOf("messages", { stream: true })));
  await stream.until(hasText);
  letOn();
  expect((await stream.rest()).all).toContain(errorsOf.messages);
  expect([await turnsIn({ ask }), engine.served]).toEqual([0, 1]);
});

test("what is drawn anew is no request of its own: it adds nothing to the retries of all requests", async () => {
  const { ask, at, engine, letOn } = await paused({}, { retry: { reserve: 1, share: 0.5 } });
  letOn();
  engine.mode = "dies in the stream";
  // One retry is there, and each request adds half of one: two turns have theirs, and the third has not.
  const ended: string[] = [];
  for (const content of ["one", "two", "three"]) {
    const body = { ...bodyOf("chat/completions", { stream: true }), messages: [{ role: "user", content }] };
    const { all } = await (await reading(await ask(at("chat/completions"), body))).rest();
    ended.push(all.includes("[DONE]") ? "drawn anew" : "broken off");
  }
  expect([ended, await turnsIn({ ask })]).toEqual([["drawn anew", "drawn anew", "broken off"], 2]);
});

test.each(apis)(
  "/v1/%s: a turn that is drawn anew with other weights breaks its stream, and is the answer",
  async (api) => {
    const { ask, at, engine, letOn } = await paused();
    engine.mode = "dies in the stream";
    const stream = await reading(await ask(at(api), bodyOf(api, { stream: true })));
    await stream.until(hasText);
    engine.salt = 1;
    letOn();
    const { all } = await stream.rest();
    expect([all.includes(errorsOf[api]), all.includes(ends[api])]).toEqual([true, false]);
    // What was recorded is whole, and every further request has it.
    const again = await (await reading(await ask(at(api), bodyOf(api, { stream: true })))).rest();
    const whole = saidIn((await (await ask(at(api), bodyOf(api))).json()) as Json) as string;
    expect([textOf(again.all), again.all.includes(ends[api]), engine.served]).toEqual([whole, true, 2]);
    expect(whole.startsWith(textOf(all))).toBe(false);
  },
);

test("who comes to a turn in its middle hears all of it, and it goes on when the first one leaves", async () => {
  const { ask, at, url, engine, letOn } = await paused();
  const leaves = new AbortController();
  const asked = { method: "POST", headers: { "content-type": "application/json" }, signal: leaves.signal };
  const first = fetch(`${url}${at("messages")}`, {
    ...asked,
    body: JSON.stringify(bodyOf("messages", { stream: true })),
  });
  await (await reading(await first)).until(hasText);
  const second = await reading(await ask(at("messages"), bodyOf("messages", { stream: true })));
  await second.until(hasText);
  leaves.abort();
  letOn();
  const { all } = await second.rest();
  const whole = (await (await ask(at("messages"), bodyOf("messages"))).json()) as Json;
  expect([textOf(all), engine.served]).toEqual([saidIn(whole), 1]);
});

test("that a turn could not be recorded is in the log, also when its agent has left", async () => {
  const sessions = folder();
  let hear = (_: object): void => {};
  const heard = new Promise<object>((resolve) => {
    hear = resolve;
  });
  const { at, url, letOn } = await paused({}, {}, { sessions, logger: { ...silentLogger, error: hear } });
  const leaves = new AbortController();
  const asked = { method: "POST", headers: { "content-type": "application/json" }, signal: leaves.signal };
  const first = await fetch(`${url}${at("messages")}`, {
    ...asked,
    body: JSON.stringify(bodyOf("messages", { stream: true })),
  });
  await (await reading(first)).until(hasText);
  leaves.abort();
  // No disk takes a line behind this one.
  rmSync(join(sessions, "a.jsonl"));
  mkdirSync(join(sessions, "a.jsonl"));
  letOn();
  expect(await heard).toMatchObject({ error: { code: "EISDIR" } });
});

test("what is still drawn for a session that was removed is no turn of the one that begins under its name", async () => {
  const { ask, at, url, letOn } = await paused();
  const stream = await reading(await ask(at("messages"), bodyOf("messages", { stream: true })));
  await stream.until(hasText);
  await fetch(`${url}/sessions/a`, { method: "DELETE" });
  await ask("/sessions", { session_id: "a" });
  letOn();
  expect((await stream.rest()).all).toContain("event: error\n");
  expect(await turnsIn({ ask })).toBe(0);
});

test("weights that an engine does not name are asked for before a fenced turn ends", async () => {
  const queue = { queueTimeoutMs: 100 };
  const { ask, at, engine, letOn } = await paused({ kind: "vllm" }, { queue });
  const fence = { "x-muster-min-weight-version": "7" };
  const stream = await reading(await ask(at("messages"), bodyOf("messages", { stream: true }), fence));
  await stream.until(hasText);
  engine.version = "6";
  letOn();
  const { all } = await stream.rest();
  expect(all).toContain("event: error\n");
  expect(await turnsIn({ ask })).toBe(0);
});

test.each(["messages", "responses"] as const)(
  "outside of sessions /v1/%s says each token, and says when its engine is lost",
  async (api) => {
    const { ask, engine, letOn } = await paused();
    const stream = await reading(await ask(`/v1/${api}`, bodyOf(api, { stream: true })));
    await stream.until(hasText);
    letOn();
    expect((await stream.rest()).all).toContain(ends[api]);
    engine.mode = "dies in the stream";
    const { all } = await (await reading(await ask(`/v1/${api}`, bodyOf(api, { stream: true })))).rest();
    expect([textOf(all), all.includes(errorsOf[api]), all.includes(ends[api])]).toEqual(["12", true, false]);
  },
);

test("an end that the router can not write breaks the stream off: nobody waits for it for ever", async () => {
  const nobody = { inference: null, admin: null };
  const app = openHttpApp({
    ...{
      host: "127.0.0.1",
      tls: null,
      tokens: nobody,
      limits: routerDefaults.http,
      refused: () => {},
      failed: () => {},
    },
  });
  onTestFinished(() => app.close());
  const failed: unknown[] = [];
  const fault = new RangeError("the end can not be written");
  app.get("/stream", scopedTo("public"), async (_, reply) => {
    const growing = new GrowingAnswer();
    growing.follow(Promise.resolve({ choices: [{ message: { content: "a" } }] }));
    const events = { ...chatEvents({}), end: () => raise(fault) };
    const stream = {
      stallMs: 1_000,
      pingMs: 1_000,
      failed: (error: unknown) => failed.push(error),
      brokeOff: () => {},
    };
    return await sendStream(reply, growing, events, { ...stream, running: new Set() });
  });
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  const answer = await fetch(`${url}/stream`).catch(() => null);
  expect(
    await (answer?.text() ?? Promise.reject(new Error("no answer"))).then(
      () => "whole",
      () => "broken",
    ),
  ).toBe("broken");
  expect(failed).toEqual([fault]);
});

function raise(error: Error): never {
  throw error;
}

test("what fails before the first token has a status of its own, and none of it is a stream", async () => {
  const { ask, at, engine, letOn } = await paused();
  letOn();
  engine.mode = "500";
  const failed = await ask(at("messages"), bodyOf("messages", { stream: true }));
  expect([failed.status, await failed.json()]).toMatchObject([502, { type: "error", error: { type: "api_error" } }]);
  engine.mode = "ok";
  engine.givesTokens = false;
  // Its stream has no tokens to train on; nor has its whole answer, whose error has begun a stream.
  const bare = await reading(await ask(at("messages"), bodyOf("messages", { stream: true })));
  expect((await bare.rest()).all).toContain("return_token_ids");
});
