import { expect, test } from "vitest";
import { responseOf } from "./support/fake-engine.ts";
import { eventsOf, openRouter, startEngine } from "./support/open-router.ts";

const prompt = { input_ids: [5, 6, 7], sampling_params: { max_new_tokens: 8 } };
const chat = { messages: [{ role: "user", content: "hi" }] };

test("requests of all three routes reach an engine and come back as it answered", async () => {
  const engine = await startEngine({ version: "7" });
  const { ask } = await openRouter([engine]);
  const generated = await ask("/generate", prompt);
  expect(generated.status).toBe(200);
  expect(await generated.json()).toMatchObject({ output_ids: responseOf([5, 6, 7], 8) });
  expect(await (await ask("/v1/chat/completions", chat)).json()).toMatchObject({ id: "c" });
  expect(await (await ask("/v1/completions", { prompt: "hi" })).json()).toMatchObject({ id: "c" });
  expect(generated.headers.get("x-muster-weight-version")).toBe("7");
  expect(generated.headers.get("x-muster-weight-version-source")).toBe("answer");
  expect(generated.headers.get("x-muster-worker")).toMatch(/^w-[0-9a-f]{12}$/);
});

test("requests one after another go round: equals take turns", async () => {
  const engines = [await startEngine(), await startEngine(), await startEngine()];
  const { ask } = await openRouter(engines);
  for (let i = 0; i < 9; i++) await (await ask("/generate", prompt)).text();
  expect(engines.map(({ served }) => served)).toEqual([3, 3, 3]);
});

test.each([
  ["500", "502"],
  ["503", "503"],
  ["error body", "502"],
  ["garbage", "502"],
  ["dies before its answer", "502"],
  ["dies in its answer", "502"],
] as const)("an engine that answers with %s costs nothing while another one is there", async (mode, alone) => {
  const bad = await startEngine({ version: "1" });
  const good = await startEngine({ version: "1" });
  bad.mode = mode;
  const { ask, router } = await openRouter([bad, good]);
  for (let i = 0; i < 4; i++) {
    const answer = await ask("/generate", prompt);
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({ output_ids: responseOf([5, 6, 7], 8) });
  }
  expect(router.workers().map(({ active }) => active)).toEqual([0, 0]);
  router.remove(good.url);
  const answer = await ask("/generate", prompt);
  expect(`${answer.status}`).toBe(alone);
  expect(await answer.json()).toMatchObject({ error: { message: expect.stringContaining("after 4 attempts") } });
});

test("what the engine says of a wrong request is the answer, and is asked of one engine alone", async () => {
  const engines = [await startEngine(), await startEngine()];
  for (const engine of engines) engine.mode = "400";
  const { ask } = await openRouter(engines);
  const answer = await ask("/generate", prompt);
  expect(answer.status).toBe(400);
  expect(await answer.json()).toEqual({ error: { message: "top_p is wrong" } });
  expect(engines.flatMap(({ requests }) => requests)).toHaveLength(1);
});

test("an engine that hangs loses its requests to another one when its checks fail", async () => {
  const bad = await startEngine({ version: "1" });
  const good = await startEngine({ version: "1" });
  const { ask, router } = await openRouter([bad, good]);
  bad.mode = "hang";
  bad.healthy = "hang";
  const answers = await Promise.all(Array.from({ length: 6 }, () => ask("/generate", prompt)));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 200]);
  expect(router.workers()[0]).toMatchObject({ state: "quarantined", active: 0 });
});

test("a request has a time, and its end says so", async () => {
  const engine = await startEngine();
  engine.mode = "hang";
  const { ask, router } = await openRouter([engine], { attempt: { timeoutMs: 100 }, retry: { attemptsMax: 1 } });
  const answer = await ask("/generate", prompt);
  expect(answer.status).toBe(504);
  expect(await answer.json()).toMatchObject({ error: { code: "engine_timeout" } });
  expect(router.workers()[0]?.active).toBe(0);
});

test("a stream comes event by event, in the bytes of the engine", async () => {
  const engine = await startEngine();
  const { ask } = await openRouter([engine]);
  const answer = await ask("/v1/chat/completions", { ...chat, stream: true });
  expect(answer.headers.get("content-type")).toBe("text/event-stream");
  const { data, isDone } = await eventsOf(answer);
  expect(data).toHaveLength(5);
  expect(isDone).toBe(true);
});

test.each(["dies before its answer", "empty stream", "500", "error body"] as const)(
  "a stream whose engine %s before its first event begins at another one",
  async (mode) => {
    const bad = await startEngine();
    const good = await startEngine();
    bad.mode = mode;
    const { ask } = await openRouter([bad, good]);
    for (let i = 0; i < 2; i++) {
      const { data, isDone, isBroken } = await eventsOf(await ask("/v1/chat/completions", { ...chat, stream: true }));
      expect({ events: data.length, isDone, isBroken }).toEqual({ events: 5, isDone: true, isBroken: false });
    }
  },
);

test("a stream that can not go on ends with an error event and a broken connection, and is not begun again", async () => {
  const bad = await startEngine();
  bad.mode = "dies in the stream";
  const { ask, router } = await openRouter([bad, await startEngine()]);
  const both = await Promise.all([1, 2].map(() => ask("/v1/chat/completions", { ...chat, stream: true })));
  const ends = await Promise.all(both.map(eventsOf));
  const broken = ends.find(({ isBroken }) => isBroken);
  expect(broken?.data).toHaveLength(4);
  expect(broken?.data.at(-1)).toMatchObject({ error: { code: "engine_lost" } });
  expect(broken?.isDone).toBe(false);
  expect(router.workers().map(({ active }) => active)).toEqual([0, 0]);
});

test("a stream that stands still is given up", async () => {
  const bad = await startEngine();
  bad.mode = "hangs in the stream";
  const { ask } = await openRouter([bad], { attempt: { stallMs: 100 } });
  const { data, isBroken } = await eventsOf(await ask("/v1/completions", { prompt: "a", stream: true }));
  expect(data.at(-1)).toMatchObject({ error: { code: "engine_timeout" } });
  expect(isBroken).toBe(true);
});

test("a client that leaves takes its request with it: the engine's place is free again", async () => {
  const engine = await startEngine();
  engine.mode = "hangs in the stream";
  const { url, until } = await openRouter([engine]);
  const leave = new AbortController();
  const asked = fetch(`${url}/generate`, {
    ...{ method: "POST", signal: leave.signal, headers: { "content-type": "application/json" } },
    body: JSON.stringify({ ...prompt, stream: true }),
  });
  await asked;
  await until("a request at the engine", ([worker]) => worker?.active === 1);
  leave.abort();
  await until("no request at the engine", ([worker]) => worker?.active === 0);
});

test("a router that ends lets its requests finish, and takes no new ones", async () => {
  const engine = await startEngine({ latencyMs: 200 });
  const { ask, router } = await openRouter([engine]);
  const last = ask("/generate", prompt);
  while (router.pending() === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  const closed = router.close(5_000);
  const late = await ask("/generate", prompt);
  expect(late.status).toBe(503);
  expect(late.headers.get("retry-after")).toBe("1");
  expect((await last).status).toBe(200);
  expect(await closed).toBe(0);
});
