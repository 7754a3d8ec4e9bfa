/** Clients and engines that mean harm, or are only slow: each of them harms nobody else. */
import { Agent, createServer, get, type IncomingMessage, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { Writable } from "node:stream";
import { systemClock } from "@muster/runtime";
import { expect, onTestFinished, test } from "vitest";
import { openFence } from "../src/core/fence.ts";
import { Pool } from "../src/core/pool.ts";
import { TokenStream } from "../src/core/token-stream.ts";
import { routerDefaults } from "../src/index.ts";
import { Admission } from "../src/routes/admission.ts";
import { headersForEngine } from "../src/routes/answer-headers.ts";
import { openHttpApp, scopedTo } from "../src/routes/http-app.ts";
import { drained } from "../src/sampler/drained.ts";
import { openRouter, startEngine } from "./support/open-router.ts";

const prompt = { input_ids: [1], sampling_params: { max_new_tokens: 4 } };

/** An engine that answers every request with this much text, or with this status. */
async function plainEngine(answer: {
  readonly status?: number;
  readonly bytes?: number | (() => number);
  readonly asked?: () => void;
}): Promise<string> {
  const server: Server = createServer((request, response) => {
    request.resume();
    const isGet = request.method === "GET";
    if (!isGet) answer.asked?.();
    const { bytes = 1 } = answer;
    response.writeHead(isGet ? 200 : (answer.status ?? 200), { "content-type": "application/json" });
    response.end(
      isGet
        ? '{"weight_version":"1"}'
        : JSON.stringify({ text: "x".repeat(typeof bytes === "number" ? bytes : bytes()) }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("a client that takes nothing of a whole answer is cut off, and its answer is not kept for ever", async () => {
  const url = await plainEngine({ bytes: 24 * 1024 ** 2 });
  const { router, until } = await openRouter([url], { attempt: { clientStallMs: 300 } });
  await until("healthy", (workers) => workers.every(({ state }) => state === "healthy"));
  const socket = connect(router.port, "127.0.0.1");
  socket.on("error", () => {});
  const body = JSON.stringify(prompt);
  socket.write(
    `POST /generate HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  socket.pause();
  await until("answered", ([worker]) => worker?.active === 0 && router.pending() > 0);
  await until("cut off", () => router.pending() === 0);
  let bytes = 0;
  socket.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
  });
  socket.resume();
  await new Promise((resolve) => socket.once("close", resolve));
  expect(bytes).toBeLessThan(24 * 1024 ** 2);
});

test("answers that are held are bounded together: beyond it they pass through, and one that must be whole is 503", async () => {
  let asked = 0;
  // Only the answer that its client does not take has to be longer than what a kernel keeps of it. Engine, router and clients share one thread here:
  // what is long keeps it busy for so long that a quick check is late, and an engine whose weights can not be asked for answers no request with a fence.
  const [kept, other] = [24 * 1024 ** 2, 2 * 1024 ** 2];
  const url = await plainEngine({ bytes: () => (asked === 2 ? kept : other), asked: () => void asked++ });
  const { router, ask, until } = await openRouter([url], {
    attempt: { clientStallMs: 60_000, answersBytesMax: 25 * 1024 ** 2 },
    retry: { attemptsMax: 1 },
    ...{ pool: { health: routerDefaults.pool.health }, healthTimeoutMs: routerDefaults.healthTimeoutMs },
  });
  await until("healthy", (workers) => workers.every(({ state }) => state === "healthy"));
  const fenced = { "x-muster-weight-version": "1" };
  expect((await (await ask("/generate", prompt, fenced)).text()).length).toBeGreaterThan(other);
  // A client may have all of its answer before the router knows that it has.
  await until("taken", () => router.pending() === 0);
  const socket = connect(router.port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  const body = JSON.stringify(prompt);
  socket.write(
    `POST /generate HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  socket.pause();
  // Before the engine is asked, it has as little to do as when it has answered.
  await until("answered", ([worker]) => asked === 2 && worker?.active === 0 && router.pending() > 0);
  expect((await (await ask("/generate", prompt)).text()).length).toBeGreaterThan(other);
  const refused = await ask("/generate", prompt, fenced);
  expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining("all requests together")]);
  const message = { max_tokens: 4, messages: [{ role: "user", content: "a" }] };
  expect((await ask("/v1/messages", message)).status).toBe(503);
  expect(router.workers()[0]).toMatchObject({ state: "healthy", requestFailures: 0 });
  socket.destroy();
  await until("gone", () => router.pending() === 0);
  expect((await (await ask("/generate", prompt, fenced)).text()).length).toBeGreaterThan(other);
});

test("a client that takes nothing of a route's own answer is cut off, and one that waits for its next answer is not", async () => {
  const app = openHttpApp({
    ...{ host: "127.0.0.1", tls: null, tokens: { inference: null, admin: null }, refused: () => {}, failed: () => {} },
    limits: { ...routerDefaults.http, clientStallMs: 200 },
  });
  onTestFinished(() => app.close());
  let cutOff = (): void => {};
  const isCutOff = new Promise<void>((resolve) => {
    cutOff = resolve;
  });
  app.get("/large", scopedTo("public"), async (_, reply) => {
    reply.raw.once("close", cutOff);
    return "x".repeat(24 * 1024 ** 2);
  });
  app.get("/slow", scopedTo("public"), async () => await new Promise((resolve) => setTimeout(resolve, 600, "late")));
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const textOf = (path: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const answered = (response: IncomingMessage): void => {
        let text = "";
        response.setEncoding("utf8").on("data", (piece: string) => {
          text += piece;
        });
        response.on("end", () => resolve(text));
      };
      get({ host: "127.0.0.1", port, path, agent }, answered).on("error", reject);
    });
  expect([await textOf("/slow"), await textOf("/slow")]).toEqual(["late", "late"]);
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.pause();
  socket.write("GET /large HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
  await isCutOff;
});

test("a router that ends lets a client take the answer that it was given", async () => {
  const url = await plainEngine({ bytes: 24 * 1024 ** 2 });
  const { router, ask, until } = await openRouter([url]);
  await until("healthy", (workers) => workers.every(({ state }) => state === "healthy"));
  const answer = await ask("/generate", prompt);
  const closed = router.close(10_000);
  expect((await answer.text()).length).toBeGreaterThan(24 * 1024 ** 2);
  expect(await closed).toBe(0);
});

test("a client whose own token the engine refuses gets that answer, and the engine stays", async () => {
  const url = await plainEngine({ status: 401 });
  const { ask, router, until } = await openRouter([url]);
  await until("healthy", (workers) => workers.every(({ state }) => state === "healthy"));
  for (let i = 0; i < 4; i++) {
    const answer = await ask("/generate", prompt, { authorization: "Bearer wrong" });
    expect(answer.status).toBe(401);
  }
  expect(router.workers()[0]).toMatchObject({ state: "healthy", requestFailures: 0 });
});

test("engines that do not say their models are not asked one after another without an end", async () => {
  let asked = 0;
  const server = createServer((request, response) => {
    if (request.url === "/v1/models") asked += 1;
    else response.writeHead(200, { "content-type": "application/json" }).end('{"weight_version":"1"}');
  });
  await new Promise<void>((resolve) => server.listen(0, resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const urls = Array.from({ length: 8 }, (_, i) => `http://127.0.0.${i + 1}:${port}`);
  const { ask, until } = await openRouter(urls);
  await until("healthy", (workers) => workers.every(({ state }) => state === "healthy"));
  expect((await ask("/v1/models")).status).toBe(503);
  expect(asked).toBeLessThanOrEqual(3);
});

test("a stream that waits for an engine that resumes holds up nobody who needs none", async () => {
  const pool = new Pool({ ...routerDefaults.pool, activeMax: 1 });
  pool.add("a", "http://a", 0);
  pool.probed("a", 1, { ok: true, version: "1", incarnation: null, resumes: false, model: null }, 0);
  const admission = new Admission({
    ...{ pool, clock: systemClock(), queueMax: 8, queueTimeoutMs: 5_000, activeMax: 8, changed: () => {} },
  });
  const need = { fence: openFence, stickyKey: null, tried: new Set<string>() };
  const ending = new AbortController();
  const first = await admission.acquire(need, ending.signal);
  const stream = admission.acquire({ ...need, resumes: true }, ending.signal).catch(() => "ended");
  let isServed = false;
  const other = admission.acquire(need, ending.signal).then(() => {
    isServed = true;
  });
  admission.release(first, { kind: "served", version: "1" });
  await new Promise((resolve) => setImmediate(resolve));
  expect(isServed).toBe(true);
  ending.abort(new Error("over"));
  await Promise.all([stream, other]);
});

test("what a worker did before it was removed and added again changes nothing of its next life", () => {
  const pool = new Pool(routerDefaults.pool);
  const need = { fence: openFence, stickyKey: null, tried: new Set<string>() };
  pool.add("a", "http://a", 0);
  pool.probed("a", 1, { ok: true, version: "1", incarnation: null, resumes: false, model: null }, 0);
  const ticket = pool.take(need, 0);
  if (typeof ticket === "string") throw new Error(ticket);
  pool.remove("a");
  pool.add("a", "http://a", 1);
  expect(pool.end(ticket, { kind: "failed", refused: true, detail: "refused" }, 2)).toBeNull();
  expect(pool.active).toBe(0);
  expect(pool.worker("a")?.state).toBe("starting");
});

test("a response that has all tokens it may have is not drawn further elsewhere", () => {
  const stream = new TokenStream({ ...prompt, stream: true }, [1]);
  const event = (count: number) => ({
    ...{ output_ids: Array.from({ length: count }, (_, i) => i), text: "" },
    meta_info: { id: "x", completion_tokens: count, finish_reason: null },
  });
  stream.take(event(3), null);
  expect(stream.canContinue).toBe(true);
  stream.take(event(4), null);
  expect(stream.canContinue).toBe(false);
});

test("headers that a client names as those of its connection go no further", () => {
  const sent = headersForEngine(
    { connection: "close, X-Hop", "x-hop": "1", "x-kept": "2" },
    { token: null, hasOwnTokens: false },
  );
  expect(sent).toEqual({ "x-kept": "2", "content-type": "application/json" });
});

test("an engine that can not be asked for its weights again does not vouch for an answer that names none", async () => {
  const engine = await startEngine({ kind: "vllm", version: "7" });
  const { ask } = await openRouter([engine], {
    ...{ retry: { attemptsMax: 1 }, pool: { health: { intervalMs: 60_000 } } },
  });
  const fenced = { "x-muster-weight-version": "7" };
  const chat = { messages: [{ role: "user", content: "hi" }] };
  expect((await ask("/v1/chat/completions", chat, fenced)).status).toBe(200);
  engine.healthy = "500";
  expect((await ask("/v1/chat/completions", chat, fenced)).status).toBe(503);
});

test.each([
  ["takes nothing", 30, 0],
  ["has left", 60_000, 30],
])("a stream of a sampler does not wait for ever for a client that %s", async (_, stallMs, leavesMs) => {
  const client = new Writable({ highWaterMark: 1, write: () => {} });
  const gone = new AbortController();
  client.once("close", () => gone.abort());
  expect(client.write("some")).toBe(false);
  if (leavesMs > 0) setTimeout(() => client.destroy(), leavesMs);
  await expect(drained(client, gone.signal, stallMs)).rejects.toThrow("aborted");
  expect(client.destroyed).toBe(true);
});
