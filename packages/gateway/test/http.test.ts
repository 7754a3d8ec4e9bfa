import { connect } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import type { GatewayOptions } from "../src/index.ts";
import { grantsOf } from "../src/index.ts";
import { openGateway } from "./support/gateway.ts";

const open: { close(): Promise<void> }[] = [];

async function gatewayOf(options: Partial<GatewayOptions> = {}) {
  const opened = await openGateway(options);
  open.push(opened.gateway);
  return opened;
}

afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

const actor = { role_name: "actor", rank: 0, ip: "10.0.0.1", port: 20_000 };
const meta = { names: ["w"], dtypes: ["bf16"], shapes: [[2, 3]], group_name: "g" };

/** What comes back over a plain connection. */
async function answerTo(port: number, text: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.end(text);
  let answer = "";
  for await (const piece of socket.setEncoding("utf8")) answer += piece;
  return answer;
}

describe("what is no request", () => {
  test.each([
    ["noise", "hello\r\n\r\n", 400, "the request is not HTTP/1.1"],
    [
      "headers without an end",
      `GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ${"x".repeat(20_000)}\r\n\r\n`,
      431,
      "headers: they are longer than 16384 bytes",
    ],
    [
      "a request without a host",
      "GET /health HTTP/1.1\r\nconnection: close\r\n\r\n",
      403,
      'host: "" is no name of this server; allow it with --allow-host',
    ],
  ])("%s is answered with a status and a sentence", async (_, text, status, message) => {
    const { gateway } = await gatewayOf();
    const answer = await answerTo(gateway.port, text);
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(JSON.parse(answer.slice(answer.indexOf("{")))).toMatchObject({ status: "error", message, detail: message });
  });
});

describe("the document's endpoints", () => {
  test("answer under / and under /dcs_coordinator with its field names", async () => {
    const { call } = await gatewayOf();
    expect(await call("POST /register", { role_name: "actor_fwd", ip: "fd00::1", port: 1 })).toEqual({
      status: 200,
      body: { status: "success", message: "registered", rank: 0, node_id: "actor_fwd_0" },
    });
    await call("POST /dcs_coordinator/register", { ...actor, metadata: { pp_size: 2 } });
    await call("POST /register", { role_name: "rollout" });
    expect((await call("GET /dcs_coordinator/heartbeat?role=actor&rank=0")).body).toEqual({
      ...{ status: "ok", timestamp: expect.any(Number) },
    });
    const info = { ...actor, world_size: null, device_id: null, metadata: { pp_size: 2 } };
    expect((await call("GET /node?role=actor&rank=0")).body).toEqual(info);
    expect((await call("GET /peer?role=rollout&rank=0&peer_role=actor")).body).toEqual(info);
    expect((await call("GET /peer?role=actor&rank=0")).body).toMatchObject({ role_name: "rollout", rank: 0 });
    expect((await call("GET /global_rank?role=actor&rank=0")).body).toEqual({ global_rank: 1 });
    expect((await call("GET /topology")).body).toMatchObject({
      ...{ world_size: 3, nodes: { actor: { 0: info }, actor_fwd: { 0: { rank: 0 } } } },
    });
    expect((await call("GET /get_model_update_group_ranks?role=actor_fwd&rank=0&need_update_ref=true")).body).toEqual({
      ...{ global_rank: 1, world_size: 2, train_pp_size: 2, pp_groups: {}, membership_epoch: 3 },
    });
    expect((await call("DELETE /unregister?role=actor_fwd&rank=0")).body).toMatchObject({ status: "success" });
    expect((await call("DELETE /unregister?role=actor_fwd&rank=0")).status).toBe(404);
    expect((await call("GET /debug/topology")).body.nodes.actor[0]).toMatchObject({
      ...{ is_alive: true, role_info: info, connections: ["rollout_0"] },
    });
  });

  test("health lists all that are dead, and apart those that died since the last call", async () => {
    const { call, clock } = await gatewayOf();
    await call("POST /register", actor);
    expect((await call("GET /health")).body).toMatchObject({ status: "healthy", world_size: 1, dead_nodes: [] });
    await clock.advance(30_001);
    const first = (await call("GET /health")).body;
    expect(first).toMatchObject({ world_size: 0, dead_nodes: ["actor_0"], newly_dead_nodes: ["actor_0"] });
    expect((await call("GET /health")).body).toMatchObject({ dead_nodes: ["actor_0"], newly_dead_nodes: [] });
    expect((await call(`GET /health?since=${first.membership_epoch - 1}`)).body.newly_dead_nodes).toEqual(["actor_0"]);
    await call("GET /heartbeat?role=actor&rank=0");
    expect((await call("GET /health")).body).toMatchObject({ world_size: 1, dead_nodes: [] });
  });

  test("weight metadata come from an index on, by a long poll too, and 410 after the clear", async () => {
    const { call, clock } = await gatewayOf();
    expect(await call("GET /recv_weight_meta?index=0")).toEqual({ status: 200, body: [] });
    const waiting = call("GET /recv_weight_meta?index=0&wait_timeout_s=20");
    await untilWaiting(call, 1);
    await call("POST /send_weight_meta", meta);
    expect((await waiting).body).toEqual([meta]);
    expect((await call("GET /recv_weight_meta?index=1")).body).toEqual([]);
    const late = call("GET /recv_weight_meta?index=1&wait_timeout_s=20");
    await untilWaiting(call, 1);
    await call("GET /clear_weight_meta");
    expect((await late).status).toBe(410);
    const nothing = call("GET /recv_weight_meta?index=0&wait_timeout_s=20");
    await untilWaiting(call, 1);
    await clock.advance(20_001);
    expect((await nothing).body).toEqual([]);
  });

  test("a change of the topology wakes whoever waits for the next epoch", async () => {
    const { call } = await gatewayOf();
    const waiting = call("GET /topology?after_epoch=0&wait_timeout_s=20");
    await untilWaiting(call, 1);
    await call("POST /register", actor);
    expect((await waiting).body.membership_epoch).toBe(1);
    expect((await call("GET /get_model_update_group_ranks?role=actor&rank=0&membership_epoch=0")).status).toBe(409);
  });

  test("the update lock is given to whoever waits for it when its owner dies", async () => {
    const { call, clock } = await gatewayOf();
    await call("POST /register", actor);
    await call("POST /register", { ...actor, rank: 1, port: 2 });
    const take = (owner: string, wait_timeout_s: number) =>
      call("POST /acquire_lock", { name: "update", owner, lease_seconds: 3_600, wait_timeout_s });
    expect((await take("actor_0", 0)).body).toEqual({ status: "acquired", token: 1, owner: "actor_0" });
    expect((await take("actor_1", 0)).body).toEqual({ status: "held", token: null, owner: "actor_0" });
    await clock.advance(20_000);
    await call("GET /heartbeat?role=actor&rank=1");
    const waiting = take("actor_1", 60);
    await untilWaiting(call, 1);
    await clock.advance(10_500);
    expect((await waiting).body).toEqual({ status: "acquired", token: 2, owner: "actor_1" });
  });

  test("the OpenAPI description names every endpoint and is made from the schemas", async () => {
    const { call } = await gatewayOf();
    const { paths } = (await call("GET /openapi.json")).body;
    expect(Object.keys(paths)).toEqual(
      expect.arrayContaining(["/register", "/unregister", "/recv_weight_meta", "/debug/topology", "/acquire_lock"]),
    );
    const body = paths["/register"].post.requestBody.content["application/json"].schema;
    expect(Object.keys(body.properties)).toContain("device_id");
    expect(paths["/peer"].get.parameters.map((each: { name: string }) => each.name)).toEqual([
      "role",
      "rank",
      "peer_role",
    ]);
  });

  test("metrics have the names, labels and buckets of the document", async () => {
    const { call } = await gatewayOf();
    await call("GET /node?role=actor&rank=0");
    const { body } = await call("GET /metrics");
    for (const line of [
      'dcs_send_latency_seconds_bucket{le="0.001"} 0',
      'dcs_send_latency_seconds_bucket{le="+Inf"} 0',
      "dcs_bytes_received_total 0",
      "dcs_save_operations_total 0",
      'dcs_errors_total{type="http_404"} 1',
      "dcs_pending_operations 0",
      "dcs_coordinator_membership_epoch 0",
    ])
      expect(body).toContain(`${line}\n`);
  });
});

describe("bad input", () => {
  const faults: readonly (readonly [title: string, line: string, body: unknown, status: number, says: string])[] = [
    ["no JSON", "POST /register", '{"role_name', 400, "body: "],
    ["no body", "POST /register", "", 422, "role_name: is missing"],
    ["a list", "POST /register", [], 422, "body: "],
    ["no role", "POST /register", { rank: 0 }, 422, "role_name: is missing"],
    ["a negative rank", "POST /register", { role_name: "a", rank: -1 }, 422, "rank: "],
    ["a rank in text", "POST /register", { role_name: "a", rank: "0" }, 422, "rank: "],
    ["a hostile name", "POST /register", { role_name: "<img>" }, 422, "role_name: "],
    [
      "deep metadata",
      "POST /register",
      `{"role_name":"a","metadata":{"x":${"[".repeat(9_000)}${"]".repeat(9_000)}}}`,
      400,
      "body: it is nested deeper than 128",
    ],
    ["more shapes than names", "POST /send_weight_meta", { ...meta, shapes: [] }, 422, "shapes: has 0 entries"],
    ["a broken dimension", "POST /send_weight_meta", { ...meta, shapes: [[1.5]] }, 422, "shapes.0.0: "],
    ["no rank", "GET /heartbeat?role=actor", undefined, 422, "rank: is missing"],
    ["a rank that is no number", "GET /node?role=actor&rank=x", undefined, 422, "rank: is not a number"],
    ["a field twice", "GET /node?role=actor&rank=1&rank=2", undefined, 422, "rank: "],
    ["a wait without end", "GET /recv_weight_meta?wait_timeout_s=1e9", undefined, 422, "wait_timeout_s: "],
    [
      "a flag that is none",
      "GET /get_model_update_group_ranks?role=actor&rank=0&need_update_ref=maybe",
      undefined,
      422,
      "need_update_ref: ",
    ],
    ["a role without groups", "GET /get_model_update_group_ranks?role=x&rank=0", undefined, 400, 'role: "x"'],
    [
      "no actor 0",
      "GET /get_model_update_group_ranks?role=actor&rank=0",
      undefined,
      409,
      "role: actor 0 is not registered",
    ],
    ["somebody unknown", "GET /heartbeat?role=actor&rank=9", undefined, 404, "rank: actor_9"],
    ["an unknown path", "GET /nothing", undefined, 404, "path: /nothing"],
    ["another method", "PUT /register", {}, 405, "method: PUT"],
    ["an owner who is not there", "POST /acquire_lock", { name: "l", owner: "ghost_0" }, 409, "owner: "],
    ["a broken escape", "GET /node?role=%E0%A4%A&rank=0", undefined, 422, "role: "],
  ];
  test.each(faults)("%s is answered with its status and one sentence, and changes nothing", async (...fault) => {
    const [, line, body, status, says] = fault;
    const { call } = await gatewayOf();
    const before = (await call("GET /debug/topology")).body;
    const answered = await call(line, body);
    expect([answered.status, answered.body.message]).toEqual([status, expect.stringContaining(says)]);
    expect(answered.body).toMatchObject({ status: "error", detail: answered.body.message });
    expect((await call("GET /debug/topology")).body).toEqual(before);
  });

  test("a body above the limit is 413, and one that is not JSON is 415", async () => {
    const { call } = await gatewayOf({ bodyMax: 1_000 });
    expect((await call("POST /register", { role_name: "a".repeat(2_000) })).status).toBe(413);
    expect(
      (await call("POST /register", "role_name=a", { "content-type": "application/x-www-form-urlencoded" })).status,
    ).toBe(415);
  });

  // A thousand calls share two processors with whatever else is tested; a busy machine needs more than the usual five seconds.
  test("a thousand bad requests are all answered, fifty at a time, and a good one after them too", {
    timeout: 20_000,
  }, async () => {
    const { call } = await gatewayOf();
    for (let from = 0; from < 1_000; from += 50) {
      const asked = Array.from({ length: 50 }, (_, i) => faults[(from + i) % faults.length]).filter(
        (each) => each !== undefined,
      );
      const bad = await Promise.all(asked.map(([, line, body]) => call(line, body)));
      expect(bad.map(({ status }) => status)).toEqual(asked.map(([, , , status]) => status));
    }
    expect((await call("POST /register", actor)).status).toBe(200);
  });

  test("an address that asks too often is 429", async () => {
    const { call, clock } = await gatewayOf({ rate: { perSecond: 1, burst: 2 } });
    const statuses = [];
    for (let i = 0; i < 3; i++) statuses.push((await call("GET /health")).status);
    expect(statuses).toEqual([200, 200, 429]);
    await clock.advance(1_000);
    expect((await call("GET /health")).status).toBe(200);
  });

  test("a client that goes while it waits leaves no call behind", async () => {
    const { gateway, call } = await gatewayOf();
    const gone = new AbortController();
    const waiting = fetch(`${gateway.url}/recv_weight_meta?wait_timeout_s=300`, { signal: gone.signal });
    await untilWaiting(call, 1);
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await untilWaiting(call, 0);
  });
});

describe("who may come in", () => {
  const [reader, writer, admin] = ["r", "w", "a"].map((letter) => letter.repeat(32));
  const grants = grantsOf(`read ${reader}\n# people\nwrite ${writer}\nadmin ${admin}\n`, "tokens.txt");
  const bearer = (token = "") => ({ authorization: `Bearer ${token}` });

  test("a token is needed for every method, and its scope decides", async () => {
    const { call } = await gatewayOf({ grants });
    const statusOf = async (line: string, token?: string, body?: unknown) =>
      (await call(line, body, token === undefined ? {} : bearer(token))).status;
    expect(await statusOf("GET /health")).toBe(401);
    expect(await statusOf("GET /metrics")).toBe(401);
    expect(await statusOf("POST /register", "x".repeat(32), "{broken")).toBe(401);
    expect(await statusOf("GET /health", reader)).toBe(200);
    expect(await statusOf("POST /register", reader, actor)).toBe(403);
    expect(await statusOf("GET /heartbeat?role=actor&rank=0", reader)).toBe(403);
    expect(await statusOf("POST /register", writer, actor)).toBe(200);
    expect(await statusOf("GET /debug/topology", writer)).toBe(403);
    expect(await statusOf("GET /debug/topology", admin)).toBe(200);
  });

  test("tokens that are too short are refused by their line, and never shown", () => {
    expect(() => grantsOf("read secret", "tokens.txt")).toThrow(/tokens.txt line 1: the token has 6 characters/);
    expect(() => grantsOf(`all ${reader}`, "tokens.txt")).toThrow(/not a scope/);
  });

  test("a page of another site and a name that was made to point here are refused", async () => {
    const { call } = await gatewayOf({ origins: ["http://good.example"] });
    const statusOf = async (headers: Record<string, string>) =>
      (await call("DELETE /unregister?role=a&rank=0", undefined, headers)).status;
    expect(await statusOf({ origin: "http://evil.example" })).toBe(403);
    expect(await statusOf({ origin: "http://good.example" })).toBe(404);
    expect(await statusOf({ "sec-fetch-site": "cross-site" })).toBe(403);
  });

  test("an address that others reach needs tokens, and encryption unless it is waived", async () => {
    await expect(openGateway({ host: "0.0.0.0" })).rejects.toThrow(/there are no tokens/);
    await expect(openGateway({ host: "0.0.0.0", grants })).rejects.toThrow(/unencrypted/);
    await gatewayOf({ host: "0.0.0.0", grants, plainHttp: true });
  });
});

async function untilWaiting(call: Awaited<ReturnType<typeof gatewayOf>>["call"], count: number): Promise<void> {
  const end = performance.now() + 4_000;
  while (!(await call("GET /metrics")).body.includes(`dcs_coordinator_waiting_calls ${count}\n`))
    if (performance.now() > end) throw new Error(`there were never ${count} calls that wait`);
}

describe("clients that know the document alone", () => {
  test("may end an update with a mark that has a name and no tensors", async () => {
    const { call } = await gatewayOf();
    const mark = { names: ["weight_updated_stop"], dtypes: [], shapes: [], group_name: "end" };
    await call("POST /send_weight_meta", meta);
    expect((await call("POST /send_weight_meta", mark)).status).toBe(200);
    expect((await call("GET /recv_weight_meta?index=0")).body).toEqual([meta, mark]);
  });

  test("may write what they leave out as an empty value", async () => {
    const { call } = await gatewayOf();
    await call("POST /register", { role_name: "rollout" });
    expect((await call("GET /topology?role_filter=")).body).toMatchObject({ nodes: { rollout: {} } });
    expect((await call("GET /peer?role=actor&rank=0&peer_role=")).body).toMatchObject({ role_name: "rollout" });
    expect((await call("GET /node?role=&rank=0")).body).toMatchObject({ message: "role: is missing" });
  });
});

test("a goodbye that is late does not remove the next process at the rank", async () => {
  const { call } = await gatewayOf();
  await call("POST /register", { ...actor, incarnation: "first" });
  expect((await call("DELETE /unregister?role=actor&rank=0&incarnation=first")).status).toBe(200);
  await call("POST /register", { ...actor, port: 2, incarnation: "second" });
  expect((await call("DELETE /unregister?role=actor&rank=0&incarnation=first")).status).toBe(409);
  expect((await call("GET /topology")).body.world_size).toBe(1);
});

test("who watches an epoch of before the coordinator began empty hears at once", async () => {
  const { call } = await gatewayOf();
  expect((await call("GET /topology?after_epoch=57&wait_timeout_s=20")).body.membership_epoch).toBe(0);
});
