/**
 * Inference servers that misbehave, of all three kinds: the engine gives whole responses of the weights it was given, or says what is wrong. Takes some
 * 20 s: a hundred tests, each with servers and deadlines of its own.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { JobConfig } from "@muster/protocol";
import { waitFor } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { inlineWeights } from "../src/internal.ts";
import { servedAdapterOf } from "../src/served/index.ts";
import type { Fault, Kind } from "./support/contract-server.ts";
import { config, kinds, never, requestOf, servedFixture, tokensPath, weights } from "./support/served-fixture.ts";

const { folder, open, serving, start } = servedFixture();

describe.each(kinds)("a server of the kind %s", (kind) => {
  it("gets weights as a folder, is verified, and draws responses of that version alone", async () => {
    const { server, engine } = await serving(kind);
    expect(engine.weightVersion()).toBe(7);
    expect(server.version).toMatch(/^muster-[0-9a-f]{8}-v7$/);
    expect(server.isPaused).toBe(false);
    const [row = []] = await engine.generate([requestOf()], never);
    expect(row).toHaveLength(12);
    for (const { responseIds, logprobs, finish, versionAtStart, versionAtEnd } of row) {
      expect([versionAtStart, versionAtEnd, logprobs.length]).toEqual([7, 7, responseIds.length]);
      expect(finish === "stop").toBe(responseIds.at(-1) === 0);
    }
    expect(new Set(row.map(({ responseIds }) => responseIds.join())).size).toBeGreaterThan(1);
    const [alone = []] = await engine.generate([requestOf({ from: 5, n: 2 })], never);
    expect(alone).toEqual(row.slice(5, 7));
    expect(await engine.health({ deep: true, signal: never })).toMatchObject({ ok: true, state: "up" });
  });

  it("keeps the folders of two versions, and none behind its end", async () => {
    const { engine } = await serving(kind);
    for (const version of [8, 8, 9]) await engine.updateWeights(inlineWeights(version, weights));
    const [own = ""] = readdirSync(folder());
    const versions = readdirSync(`${folder()}/${own}`).sort();
    expect(versions.map((name) => name.slice(-2))).toEqual(["v8", "v9"]);
    const header = JSON.parse(readFileSync(`${folder()}/${own}/${versions[1]}/config.json`, "utf8"));
    expect(header.model_type).toBe("llama");
    await engine.close();
    expect(readdirSync(folder())).toEqual([]);
  });

  const mended: Fault[] = [
    ...(["hangs", "500", "503", "error in a 200", "hangs in its answer", "dies in its answer", "garbage"] as const),
    ...(["endless answer", "wild token", "no logprobs", "another end", "aborts"] as const),
  ];
  it.each(mended)("draws the same responses when one answer has a fault: %s", async (fault) => {
    const { server, engine } = await serving(kind);
    const quiet = await engine.generate([requestOf()], never);
    server.faults = [fault];
    expect(await engine.generate([requestOf()], never)).toEqual(quiet);
    expect(server.faults).toEqual([]);
  });

  it.each<[Fault, RegExp]>([
    ["hangs", /no whole answer to .* within 300 ms|none of|can be used/],
    ["500", /CUDA error|can be used/],
    ["503", /is busy \(503\): queue is full/],
    ["garbage", /its answer is no JSON object: <html>/],
    ["endless answer", /its answer is longer than \d+ bytes/],
    ["wild token", /its answer has the token 4000000, and there are 43/],
    ["no logprobs", /its answer has no .*logprobs/],
    ["another end", /its answer stopped at the token 5, and responses end with 0/],
  ])("says what is wrong when every answer has the fault: %s", async (fault, says) => {
    const { server, engine } = await serving(kind, { tries: 2, start_seconds: 0.8 });
    server.always = fault;
    await expect(engine.generate([requestOf({ n: 2 })], never)).rejects.toThrow(says);
  });

  it("is brought back to its weights before it serves again when another process has its address", async () => {
    const { server, engine } = await serving(kind);
    const quiet = await engine.generate([requestOf()], never);
    const tag = server.version;
    server.always = "hangs";
    const drawing = engine.generate([requestOf()], never);
    await waitFor(() => server.count(tokensPath(kind)) >= 13, { what: "it draws", timeoutMs: 2_000 });
    const port = await server.kill();
    server.always = null;
    await server.restart(port);
    expect(await drawing).toEqual(quiet);
    expect(server.version).toBe(tag);
  });

  it("gives nothing that was drawn with other weights, which a health check or the answer finds", async () => {
    const { server, engine } = await serving(kind);
    const tag = server.version;
    server.version = kind === "openai" ? "muster-00000000-v7" : "somebody";
    const [row = []] = await engine.generate([requestOf({ n: 2 })], never);
    expect(row).toHaveLength(2);
    expect(server.version).toBe(tag);
    server.version = kind === "openai" ? "muster-00000000-v7" : "somebody";
    expect((await engine.health({ deep: false, signal: never })).ok).toBe(false);
    await waitFor(() => server.version === tag, { what: "its weights are back", timeoutMs: 2_000 });
  });

  it("is not used when it does not say which weights it has, unless it is trusted", async () => {
    const server = await start(kind);
    server.isTelling = false;
    const strict = await open(kind, [server.url]);
    await expect(strict.updateWeights(inlineWeights(7, weights))).rejects.toThrow(
      /does not say which weights .*engine\.\w+\.unverified = "accept"/,
    );
    expect(strict.weightVersion()).toBeNull();
    await strict.close();
    const trusting = await open(kind, [server.url], { unverified: "accept" });
    await trusting.updateWeights(inlineWeights(7, weights));
    expect((await trusting.generate([requestOf({ n: 2 })], never))[0]).toHaveLength(2);
  });

  it("may start slowly, and one that is none is refused at once", async () => {
    const server = await start(kind);
    server.startsIn = 5;
    const engine = await open(kind, [server.url]);
    await engine.updateWeights(inlineWeights(7, weights));
    const wrong = await open(kind, [`${(await start(kind)).url}/nowhere`]);
    await expect(wrong.updateWeights(inlineWeights(7, weights))).rejects.toThrow(
      /\(404\).*; name the server of engine/,
    );
  });

  it("serves on from the others when one of several dies", async () => {
    const [first, second] = [await start(kind), await start(kind)];
    const engine = await open(kind, [first.url, second.url]);
    await engine.updateWeights(inlineWeights(7, weights));
    const quiet = await engine.generate([requestOf()], never);
    expect(Math.min(first.count(tokensPath(kind)), second.count(tokensPath(kind)))).toBeGreaterThan(2);
    await first.kill();
    expect(await engine.generate([requestOf()], never)).toEqual(quiet);
    expect(await engine.health({ deep: false, signal: never })).toMatchObject({ ok: true });
  });

  it("gives new weights to the others when one of several is dead, which gets them when it is back", async () => {
    const [first, second] = [await start(kind), await start(kind)];
    const engine = await open(kind, [first.url, second.url], { start_seconds: 60, health_seconds: 0.1 });
    await engine.updateWeights(inlineWeights(7, weights));
    const port = await first.kill();
    for (const version of [8, 9]) await engine.updateWeights(inlineWeights(version, weights));
    expect((await engine.generate([requestOf({ n: 1 })], never))[0]).toMatchObject([{ versionAtStart: 9 }]);
    await first.restart(port);
    await waitFor(() => first.version === second.version, { what: "it has the weights", timeoutMs: 3_000 });
    const load = { openai: "/reload", sglang: "/update_weights_from_disk", vllm: "/collective_rpc" }[kind];
    expect(first.count(load)).toBe(2);
  });

  it("ends a request that is aborted, and its siblings go on", async () => {
    const { server, engine } = await serving(kind, { call_seconds: 20 });
    server.faults = ["hangs"];
    const requests = [requestOf({ requestId: "a", n: 1 }), requestOf({ requestId: "b", n: 1 })];
    const drawing = engine.generate(requests, never);
    await waitFor(() => server.count(tokensPath(kind)) >= 2, { what: "both are asked for", timeoutMs: 2_000 });
    await engine.abort(["a"]);
    const [[a], [b]] = (await drawing) as never as [[{ finish: string }], [{ finish: string }]];
    expect([a.finish, b.finish === "abort"]).toEqual(["abort", false]);
    if (kind === "sglang") await waitFor(() => server.aborted.length === 1, { what: "it was told", timeoutMs: 2_000 });
  });

  it("waits while it is paused, and an abort of the whole call ends it with its reason", async () => {
    const { server, engine } = await serving(kind, { call_seconds: 20 });
    await engine.pause("drain");
    const before = server.count(tokensPath(kind));
    const drawing = engine.generate([requestOf({ n: 1 })], never);
    await engine.resume();
    expect((await drawing)[0]).toHaveLength(1);
    expect(server.count(tokensPath(kind))).toBe(before + 1);
    server.always = "hangs";
    const stop = new AbortController();
    const hanging = engine.generate([requestOf({ n: 1 })], stop.signal);
    await waitFor(() => server.count(tokensPath(kind)) > before + 1, { what: "it is asked", timeoutMs: 2_000 });
    stop.abort(new Error("enough"));
    await expect(hanging).rejects.toThrow("enough");
  });

  it("is one sampler's alone on a host", async () => {
    const { server } = await serving(kind);
    await expect(open(kind, [server.url])).rejects.toThrow(
      /1 of the servers in engine\.\w+\.url are needed, and 0 are free/,
    );
  });
});

describe.each([
  ["sglang", "/update_weights_from_disk", "/continue_generation"],
  ["vllm", "/collective_rpc", "/resume"],
] as const)("a failure between pause and continue of %s", (kind, update, resume) => {
  it("always goes on: the server is not left paused, and gets the weights later", async () => {
    const { server, engine } = await serving(kind);
    server.broken.set(update, 500);
    await expect(engine.updateWeights(inlineWeights(8, weights))).rejects.toThrow(/failed \(500\): broken/);
    expect([server.isPaused, engine.weightVersion()]).toEqual([false, null]);
    server.broken.clear();
    await engine.updateWeights(inlineWeights(8, weights));
    expect(server.version).toMatch(/-v8$/);
  });

  it("tells it to go on again when it did not the first time, and does not take it for one that serves before", async () => {
    const { server, engine } = await serving(kind);
    server.broken.set(resume, 500);
    await expect(engine.updateWeights(inlineWeights(8, weights))).rejects.toThrow(/was paused and does not go on/);
    server.broken.clear();
    await engine.updateWeights(inlineWeights(8, weights));
    expect([server.isPaused, engine.weightVersion()]).toEqual([false, 8]);
  });

  it("takes a server out that does not go on", async () => {
    const { server, engine } = await serving(kind, { start_seconds: 0.5 });
    server.broken.set(resume, 500);
    await expect(engine.updateWeights(inlineWeights(8, weights))).rejects.toThrow(/was paused and does not go on/);
    expect(engine.weightVersion()).toBeNull();
    const asked = server.count(tokensPath(kind));
    await expect(engine.generate([requestOf({ n: 1 })], never)).rejects.toThrow(/needs updateWeights/);
    expect(server.count(tokensPath(kind))).toBe(asked);
  });
});

it("draws nothing while weights change, also when both are asked for at the same moment", async () => {
  const { server, engine } = await serving("vllm");
  server.faults = ["hangs"];
  const from = server.calls.length;
  const [[row = []]] = await Promise.all([
    engine.generate([requestOf()], never),
    engine.updateWeights(inlineWeights(8, weights)),
  ]);
  const paths = server.calls.slice(from).map(({ path }) => path);
  const drawn = paths.flatMap((path, at) => (path === tokensPath("vllm") ? [at] : []));
  const isBefore = Math.max(...drawn) < paths.indexOf("/pause");
  const isBehind = Math.min(...drawn) > paths.indexOf("/resume");
  expect([isBefore, isBehind]).toContain(true);
  expect(new Set(row.map(({ versionAtStart }) => versionAtStart))).toEqual(new Set([isBefore ? 7 : 8]));
});

it("takes a name of weights that the request itself had for no proof: servers repeat it", async () => {
  const { server, engine } = await serving("openai");
  const tag = server.version;
  server.isEchoing = true;
  server.version = "muster-00000000-v7";
  expect((await engine.generate([requestOf({ n: 2 })], never))[0]).toHaveLength(2);
  expect([server.version, server.count("/reload")]).toEqual([tag, 2]);
});

it("believes a server that is used unverified as long as it does not say something else", async () => {
  const { server, engine } = await serving("vllm", { unverified: "accept" });
  const tag = server.version;
  server.version = "somebody";
  expect((await engine.generate([requestOf({ n: 2 })], never))[0]).toHaveLength(2);
  expect(server.version).toBe(tag);
});

it("takes no response of a server that is too busy to say which weights it has", async () => {
  const { server, engine } = await serving("vllm");
  const tag = server.version;
  server.version = "somebody";
  server.broken.set("/health", 503);
  const asked = server.count("/health");
  const drawing = engine.generate([requestOf({ n: 2 })], never);
  await waitFor(() => server.count("/health") > asked, { what: "it is asked", timeoutMs: 2_000 });
  server.broken.clear();
  expect((await drawing)[0]).toHaveLength(2);
  expect(server.version).toBe(tag);
});

it("says that vLLM's routes for weights need its development mode", async () => {
  const server = await start("vllm");
  server.broken.set("/pause", 404);
  const engine = await open("vllm", [server.url]);
  await expect(engine.updateWeights(inlineWeights(1, weights))).rejects.toThrow(/VLLM_SERVER_DEV_MODE=1/);
  expect(server.count("/resume")).toBe(0);
});

it("names what is wrong in a table", () => {
  const problemsOf = (kind: Kind, given: object, rollout = 1): string =>
    servedAdapterOf(kind, {})
      .check(servedAdapterOf(kind, {}).schema.parse(given) as never, { ...config, replicas: { rollout } } as JobConfig)
      .map(({ text }) => text)
      .join("; ");
  expect(problemsOf("sglang", {})).toMatch(/engine\.sglang\.url is ""; it must be set, as there is no command/);
  expect(problemsOf("sglang", { url: "localhost:3" })).toMatch(/url is "localhost:3"; it must be an address such as/);
  expect(problemsOf("sglang", { url: "http://a" }, 2)).toMatch(/replicas\.rollout = 2 .* names 1: each sampler loads/);
  expect(problemsOf("openai", { url: "http://a" })).toMatch(/can not be given weights; let Muster start it/);
  expect(problemsOf("openai", { command: "/nowhere/x -m {model}" })).toMatch(/with \{port\}/);
  expect(problemsOf("openai", { command: "/nowhere/x --port {port}" })).toMatch(
    /has no \{model\}.*\/nowhere\/x can not be run/,
  );
  expect(existsSync("/nowhere/x")).toBe(false);
});
