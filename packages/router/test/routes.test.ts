import { connect } from "node:net";
import { silentLogger } from "@muster/base";
import { systemClock } from "@muster/runtime";
import { createMetrics } from "@muster/runtime/metrics";
import { expect, test } from "vitest";
import { checkRouterConfig, routerDefaults, startRouter } from "../src/index.ts";
import { openRouter, startEngine } from "./support/open-router.ts";

const prompt = { input_ids: [1] };
const inference = "i".repeat(40);
const admin = "a".repeat(40);
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const sentence = async (answer: Response): Promise<string> =>
  ((await answer.json()) as { error: { message: string } }).error.message;

test.each([
  ["/generate", "{", 400, /^the body is not JSON/],
  ["/generate", "[]", 400, "the body must be a JSON object"],
  ["/generate", {}, 400, "one of text, input_ids and input_embeds must be there"],
  ["/generate", { input_ids: [] }, 400, "input_ids must be a list with at least one token id"],
  ["/generate", { ...prompt, stream: "yes" }, 400, "stream must be true or false"],
  ["/generate", { ...prompt, muster: 1 }, 400, "muster must be an object"],
  ["/generate", { ...prompt, muster: { version: 1 } }, 400, /^muster.version is not known/],
  ["/generate", { ...prompt, muster: { min_weight_version: -1 } }, 400, /^x-muster-min-weight-version/],
  ["/v1/chat/completions", { messages: [] }, 400, "messages must be a list with at least one message"],
  ["/v1/completions", {}, 400, /^prompt must be/],
  ["/nothing", {}, 404, "POST /nothing is not known"],
] as const)("%s with %j is answered %i, with a sentence that names the field", async (path, body, status, says) => {
  const engine = await startEngine();
  const { ask } = await openRouter([engine]);
  const answer = await ask(path, body);
  expect(answer.status).toBe(status);
  expect(await sentence(answer)).toEqual(typeof says === "string" ? says : expect.stringMatching(says));
  expect(engine.requests).toEqual([]);
});

test("bodies, headers and kinds of content that are not taken are refused before anything is read of them", async () => {
  const { ask, url } = await openRouter([await startEngine()], { http: { bodyBytesMax: 1_000 } });
  const large = await ask("/generate", { ...prompt, pad: "x".repeat(2_000) });
  expect([large.status, await sentence(large)]).toEqual([413, "the body is longer than 1000 bytes"]);
  const text = await fetch(`${url}/generate`, {
    method: "POST",
    body: "{}",
    headers: { "content-type": "text/plain" },
  });
  expect([text.status, await sentence(text)]).toEqual([415, "content-type: it must be application/json"]);
  const wide = await ask("/generate", prompt, { "x-pad": "x".repeat(20_000) });
  expect(wide.status).toBe(431);
  const key = await ask("/generate", prompt, { "x-smg-routing-key": "x".repeat(300) });
  expect([key.status, await sentence(key)]).toEqual([400, "x-smg-routing-key has 300 characters, at most 256"]);
});

test.each([true, false])(
  "a body that is not UTF-8 is refused here, and no engine is asked (stream: %s)",
  async (stream) => {
    const engine = await startEngine();
    const { url } = await openRouter([engine]);
    const body = Buffer.concat([
      Buffer.from(`{"stream":${stream},"text":"a`),
      Buffer.of(0xff, 0xfe),
      Buffer.from('"}'),
    ]);
    const answer = await fetch(`${url}/generate`, {
      method: "POST",
      body,
      headers: { "content-type": "application/json" },
    });
    expect([answer.status, await sentence(answer)]).toEqual([400, "the body is not UTF-8, as JSON has to be"]);
    expect(engine.requests).toEqual([]);
  },
);

test("a client that sends its request too slowly is ended", async () => {
  const { router } = await openRouter([await startEngine()], { http: { receiveMs: 200 } });
  const socket = connect(router.port, "127.0.0.1");
  socket.write(
    "POST /generate HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
  );
  const said = await new Promise<string>((resolve) => {
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk;
    });
    socket.on("close", () => resolve(text));
  });
  expect(said).toMatch(/^HTTP\/1.1 408 /);
});

test("each route asks for its own token, and for the right one", async () => {
  const engine = await startEngine();
  const { ask, url } = await openRouter([engine], {}, { inference, admin, engine: "e".repeat(40) });
  const add = (headers: Record<string, string>) =>
    fetch(`${url}/add_worker?url=http://127.0.0.1:1`, { method: "POST", headers });
  const statuses = async (asked: readonly Promise<Response>[]) =>
    (await Promise.all(asked)).map(({ status }) => status);
  expect(
    await statuses([
      ask("/generate", prompt),
      ask("/generate", prompt, bearer("x".repeat(40))),
      ask("/generate", prompt, bearer(admin)),
      ask("/generate", prompt, bearer(inference)),
    ]),
  ).toEqual([401, 401, 403, 200]);
  expect(await statuses([add({}), add(bearer(inference)), add(bearer(admin))])).toEqual([401, 403, 200]);
  expect(await statuses([ask("/metrics"), ask("/metrics", undefined, bearer(inference)), ask("/health")])).toEqual([
    401, 200, 200,
  ]);
  expect(engine.requests[0]?.headers.authorization).toBe(`Bearer ${"e".repeat(40)}`);
});

test("a page of the web is not answered, nor is a name that was made to point here", async () => {
  const { ask, router } = await openRouter([await startEngine()]);
  expect((await ask("/generate", prompt, { origin: "http://evil.example" })).status).toBe(403);
  const socket = connect(router.port, "127.0.0.1");
  socket.end("GET /workers HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
  let said = "";
  for await (const chunk of socket) said += chunk;
  expect(said).toMatch(/^HTTP\/1.1 421 /);
});

test("a router that others can reach without tokens, or with a short one, does not start", async () => {
  const start = (host: string, token: string | null) =>
    startRouter({
      config: { ...routerDefaults, host, port: 0 },
      tokens: { inference: token, admin: token },
      engineToken: null,
      clock: systemClock(),
      logger: silentLogger,
      metrics: createMetrics(),
    });
  await expect(start("0.0.0.0", null)).rejects.toMatchObject({ code: "MUSTER_ERR_ROUTER_OPEN" });
  for (const token of ["", "short", " ".repeat(40)])
    await expect(start("127.0.0.1", token)).rejects.toMatchObject({ code: "MUSTER_ERR_ROUTER_TOKEN" });
  expect(() => checkRouterConfig({ ...routerDefaults, healthTimeoutMs: 10_000 })).toThrow(
    /interval, which is 10000 ms/,
  );
});

test("a full line is 429 and a full pool 503, each with a time after which to come again", async () => {
  const engine = await startEngine();
  const { ask, url } = await openRouter([engine], {
    pool: { activeMax: 1, workersMax: 1 },
    queue: { queueMax: 1, queueTimeoutMs: 50 },
  });
  engine.mode = "hang";
  const leave = new AbortController();
  const stuck = fetch(`${url}/generate`, {
    ...{ method: "POST", body: JSON.stringify(prompt), signal: leave.signal },
    headers: { "content-type": "application/json" },
  }).catch(() => null);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const answers = await Promise.all([ask("/generate", prompt), ask("/generate", prompt)]);
  expect(answers.map(({ status }) => status).sort()).toEqual([429, 503]);
  expect(answers.map(({ headers }) => headers.get("retry-after"))).toEqual(["1", "1"]);
  const added = await fetch(`${url}/add_worker?url=http://127.0.0.1:9`, { method: "POST" });
  expect(added.status).toBe(503);
  leave.abort();
  await stuck;
});

test("workers come and go through the routes of SlimeRouter and of SGLang's model gateway", async () => {
  const engine = await startEngine({ version: "4" });
  const { ask, url, until } = await openRouter([]);
  const post = (path: string, init: RequestInit = {}) => fetch(`${url}${path}`, { method: "POST", ...init });
  expect(await (await post(`/add_worker?url=${engine.url}`)).json()).toEqual({
    status: "success",
    worker_urls: { [engine.url]: 0 },
  });
  await until("healthy", ([worker]) => worker?.state === "healthy");
  expect(await (await ask("/list_workers")).json()).toEqual({ urls: [engine.url] });
  const listed = (await (await ask("/workers")).json()) as { workers: Record<string, unknown>[]; total: number };
  expect(listed).toMatchObject({ total: 1, stats: { regular_count: 1 }, newest_weight_version: 4 });
  expect(listed.workers[0]).toMatchObject({
    url: engine.url,
    is_healthy: true,
    load: 0,
    worker_type: "regular",
    weight_version: "4",
  });
  expect(await (await post(`/remove_worker?url=${engine.url}`)).json()).toEqual({ status: "success", worker_urls: {} });
  const added = await ask("/workers", { url: engine.url, model_id: "m", labels: { tier: "gold" } });
  expect(added.status).toBe(202);
  const { worker_id: id } = (await added.json()) as { worker_id: string };
  expect(await (await ask(`/workers/${id}`)).json()).toMatchObject({ labels: { tier: "gold" } });
  expect((await fetch(`${url}/workers/${encodeURIComponent(engine.url)}`, { method: "DELETE" })).status).toBe(202);
  expect((await fetch(`${url}/workers/${id}`, { method: "DELETE" })).status).toBe(404);
  for (const wrong of ["ftp://a", "http://u:p@a", "http://a/path", "nothing"]) {
    const answer = await post(`/add_worker?url=${encodeURIComponent(wrong)}`);
    expect([answer.status, (await sentence(answer)).startsWith("url ")]).toEqual([400, true]);
  }
  expect(await sentence(await post("/add_worker"))).toMatch(/^url is missing/);
});

test("health says whether the router lives, and readiness whether an engine serves", async () => {
  const { ask, router } = await openRouter([]);
  expect((await ask("/health")).status).toBe(200);
  expect((await ask("/health_generate")).status).toBe(503);
  const engine = await startEngine();
  router.add(engine.url);
  while ((await ask("/health_generate")).status !== 200) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(await (await ask("/v1/models")).json()).toEqual({ object: "list", data: [{ id: "fake" }] });
});

test("a key of a session stays at its engine", async () => {
  const engines = [await startEngine(), await startEngine(), await startEngine()];
  const { ask, metrics } = await openRouter(engines);
  for (const [header, key] of [
    ["X-SMG-Routing-Key", "a"],
    ["X-Session-ID", "b"],
  ] as const) {
    const answers = await Promise.all(Array.from({ length: 5 }, () => ask("/generate", prompt, { [header]: key })));
    expect(new Set(answers.map(({ headers }) => headers.get("x-muster-worker"))).size).toBe(1);
  }
  expect(await metrics()).toContain('muster_router_sticky_total{result="hit"} 8');
});

test("the metrics say what happened", async () => {
  const engine = await startEngine();
  const { ask } = await openRouter([engine]);
  await (await ask("/generate", prompt)).text();
  await ask("/generate", {});
  const text = await (await ask("/metrics")).text();
  for (const line of [
    'muster_router_requests_total{route="/generate",status="200"} 1',
    'muster_router_refused_total{code="invalid_request"} 1',
    `muster_router_worker_active{worker="${engine.url}"} 0`,
    `muster_router_worker_state{worker="${engine.url}",state="healthy"} 1`,
    "muster_router_quarantined_workers 0",
    'muster_router_ttft_seconds_count{route="/generate"} 1',
  ])
    expect(text).toContain(line);
});
