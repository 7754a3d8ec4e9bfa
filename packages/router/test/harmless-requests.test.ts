/** What one request, one engine or the machine of the router can not do to the pool. */
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { manualClock } from "@muster/runtime/internal";
import { expect, onTestFinished, test } from "vitest";
import { openFence } from "../src/core/fence.ts";
import { parseRequest } from "../src/core/parse-request.ts";
import { Pool, type Ticket } from "../src/core/pool.ts";
import { routerDefaults } from "../src/index.ts";
import { failureOfCode, openAgent, type Sent, send } from "../src/upstream/send.ts";
import { eventsOf, openRouter, startEngine } from "./support/open-router.ts";

const prompt = { input_ids: [1], sampling_params: { max_new_tokens: 4 } };
const up = (version: string) => ({ ok: true, version, incarnation: null, resumes: false, model: null }) as const;
const policy = { ...routerDefaults.pool, health: { ...routerDefaults.pool.health, intervalMs: 100 } };
/**
 * Engines, router and clients share one thread. Where it is kept busy for longer than a check may take, the check's own timer is due before the answer
 * is read: that says nothing of the engine. No test here is about checks that are late.
 */
const patient = { healthTimeoutMs: 60_000 };
const need = { fence: openFence, stickyKey: null, tried: new Set<string>() };

function poolOf(versions: Readonly<Record<string, string>>): Pool {
  const pool = new Pool(policy);
  for (const id of Object.keys(versions)) pool.add(id, `http://${id}`, 0);
  for (const [id, version] of Object.entries(versions)) pool.probed(id, 1, up(version), 0);
  return pool;
}

test("a request that fails at each engine takes none of them out of service, however often it comes", async () => {
  const engines = await Promise.all(["1", "1", "1"].map((version) => startEngine({ version, kind: "vllm" })));
  const { ask, router } = await openRouter(engines, {
    ...patient,
    pool: { health: { intervalMs: 210, threshold: 1 } },
    retry: { attemptsMax: 3, reserve: 1_000_000 },
  });
  for (const engine of engines) engine.mode = "500";
  const endMs = Date.now() + 500;
  while (Date.now() < endMs) expect((await ask("/generate", prompt)).status).toBe(502);
  expect(router.workers().map(({ state, requestFailures }) => [state, requestFailures])).toEqual(
    engines.map(() => ["healthy", 0]),
  );
});

test("an engine that fails what another one answers is still taken out of service", async () => {
  const [bad, good] = [await startEngine({ version: "1" }), await startEngine({ version: "1" })];
  const { ask, router } = await openRouter([bad, good], {
    ...patient,
    pool: { health: { intervalMs: 210, threshold: 2 } },
  });
  bad.mode = "500";
  const endMs = Date.now() + 5_000;
  while (router.workers()[0]?.state !== "quarantined" && Date.now() < endMs)
    expect((await ask("/generate", prompt)).status).toBe(200);
  expect(router.workers().map(({ state }) => state)).toEqual(["quarantined", "healthy"]);
});

test("failed requests take at most half of the engines out", () => {
  const pool = poolOf({ a: "1", b: "1", c: "1", d: "1" });
  for (const nowMs of [0, 1_000, 2_000, 3_000])
    for (const id of ["a", "b", "c", "d"]) {
      const others = new Set(["a", "b", "c", "d"].filter((one) => one !== id));
      const ticket = pool.take({ ...need, tried: others }, nowMs) as Ticket;
      if (ticket.workerId === id) pool.end(ticket, { kind: "failed", refused: false, detail: "reset" }, nowMs);
      else pool.end(ticket, { kind: "neutral" }, nowMs);
    }
  expect(pool.workers().map(({ state }) => state)).toEqual(["quarantined", "quarantined", "suspect", "suspect"]);
});

test("one engine that claims to be far ahead makes no other one stale, and answers no request that counts versions", () => {
  const pool = poolOf({ a: "5", b: "5", liar: "5" });
  pool.probed("liar", 1, up("999999999999999"), 1);
  expect(pool.newest).toBe(5);
  const fenced = { ...need, fence: { exact: null, min: 5, maxStaleness: 0 } };
  for (let i = 0; i < 3; i++) expect((pool.take(fenced, 2) as Ticket).workerId).not.toBe("liar");
  pool.add("b", "http://b", 3);
  pool.probed("b", 2, up("5"), 4);
  expect(pool.worker("b")?.state).toBe("healthy");
  // A second one that says the same is believed: a job that went back to a checkpoint adds 4,294,967,296.
  pool.probed("a", 1, up("999999999999990"), 5);
  pool.probed("liar", 1, up("999999999999999"), 6);
  expect(pool.newest).toBe(999_999_999_999_999);
});

test("the first engine that answers is believed; where it was wrong, somebody says so, and the others serve", () => {
  const pool = poolOf({ liar: "999999999999999", a: "5", b: "5" });
  expect(pool.workers().map(({ state }) => state)).toEqual(["healthy", "stale", "stale"]);
  pool.setCurrent("5");
  for (const id of ["a", "b"]) pool.probed(id, 1, up("5"), 1);
  expect(pool.workers().map(({ state }) => state)).toEqual(["healthy", "healthy", "healthy"]);
  const fenced = { ...need, fence: { exact: null, min: 5, maxStaleness: 0 } };
  expect((pool.take(fenced, 2) as Ticket).workerId).not.toBe("liar");
});

test.each([
  ["ECONNREFUSED", "refused"],
  ["EHOSTUNREACH", "refused"],
  ["ENOTFOUND", "not_asked"],
  ["EAI_AGAIN", "not_asked"],
  ["EMFILE", "not_asked"],
  ["ETIMEDOUT", "timeout"],
  ["ECONNRESET", "reset"],
  [undefined, "reset"],
])("%s means %s", (code, kind) => {
  expect(failureOfCode(code)).toBe(kind);
});

test("a name service that does not answer takes no engine out of service at once", async () => {
  const { router, ask } = await openRouter(["http://nowhere.invalid:1"], {
    pool: { health: { firstWaitMs: 60_000 } },
    queue: { queueTimeoutMs: 50 },
  });
  expect((await ask("/generate", prompt)).status).toBe(503);
  expect(router.workers()[0]?.state).toBe("starting");
});

test("the time for which a client holds a stream is not counted against its engine, and has its own end", async () => {
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).write("data: {}\n\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const agent = openAgent();
  onTestFinished(async () => {
    await agent.destroy();
    server.closeAllConnections();
    server.close();
  });
  const clock = manualClock();
  const outgoing = { path: "/", method: "POST", headers: {}, body: null, timeoutMs: 1_000, stallMs: 100_000 } as const;
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const failed: string[] = [];
  const start = (): Promise<Sent> =>
    new Promise((resolve) => {
      const sent = send(
        agent,
        clock,
        { origin, ...outgoing },
        {
          ...{ head: () => {}, end: () => {}, failed: (kind) => failed.push(kind) },
          piece: () => resolve(sent),
        },
      );
    });
  const patient = await start();
  patient.pause();
  clock.advance(900);
  patient.resume();
  clock.advance(950);
  expect(failed).toEqual([]);
  clock.advance(60);
  expect(failed).toEqual(["timeout"]);
  const held = await start();
  held.pause();
  clock.advance(1_001);
  expect(failed).toEqual(["timeout", "held"]);
});

test("bodies of all requests together are bounded, and who only announces much takes nothing from others", async () => {
  const { ask, router } = await openRouter([await startEngine()], {
    ...patient,
    http: { bodyBytesMax: 100_000, bodiesBytesMax: 150_000 },
  });
  const begin = (sentBytes: number): Socket => {
    const socket = connect(router.port, "127.0.0.1");
    socket.on("error", () => {});
    onTestFinished(() => void socket.destroy());
    const head =
      "POST /generate HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 99000";
    socket.write(`${head}\r\n\r\n${" ".repeat(sentBytes)}`);
    return socket;
  };
  for (let i = 0; i < 8; i++) begin(1);
  expect((await ask("/generate", prompt)).status).toBe(200);
  const holding = [begin(98_000), begin(51_000)];
  const statusOf = async () => (await ask("/generate", { ...prompt, text: "x".repeat(2_000) })).status;
  const until = async (status: number): Promise<void> => {
    const endMs = Date.now() + 5_000;
    while ((await statusOf()) !== status) if (Date.now() > endMs) throw new Error(`never ${status}`);
  };
  await until(503);
  for (const socket of holding) socket.destroy();
  await until(200);
});

test("the last event of a stream comes through without an empty line behind it, and an error in it is one", async () => {
  let last = 'data: {"choices":[{"delta":{"content":"b"}}]}';
  const server = createServer((request, response) => {
    request.resume();
    if (request.method === "GET") return void response.end('{"weight_version":"1"}');
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`data: {"choices":[{"delta":{"content":"a"}}]}\n\n${last}`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { ask, until } = await openRouter([`http://127.0.0.1:${(server.address() as AddressInfo).port}`], patient);
  await until("healthy", (workers) => workers.every(({ state }) => state === "healthy"));
  const body = { messages: [{ role: "user", content: "hi" }], stream: true };
  expect((await eventsOf(await ask("/v1/chat/completions", body))).data).toHaveLength(2);
  last = 'data: {"error":{"message":"scheduler died"}}';
  const broken = await eventsOf(await ask("/v1/chat/completions", body));
  expect(broken).toMatchObject({ isBroken: true, data: [{}, { error: { code: "engine_failed" } }] });
});

test("a request with fields of the router reaches the engine as it was written, whole numbers that are large too", () => {
  const json = '{"text":"a","muster":{"max_staleness":1},"sampling_seed":12345678901234567890}';
  const { bytes, fence } = parseRequest("/generate", Buffer.from(json), {}, { maxStaleness: null });
  expect(bytes.toString()).toBe('{"text":"a","sampling_seed":12345678901234567890}');
  expect(fence.maxStaleness).toBe(1);
  const resumable = (seed: string) =>
    parseRequest(
      "/generate",
      Buffer.from(`{"input_ids":[1],"stream":true,"sampling_params":{"sampling_seed":${seed}}}`),
      {},
      { maxStaleness: null },
    ).prompt;
  expect(resumable("7")).toEqual([1]);
  expect(resumable("9007199254740993")).toBeNull();
});
