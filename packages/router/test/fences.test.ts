import { expect, test } from "vitest";
import { FakeEngine } from "./support/fake-engine.ts";
import { openRouter, startEngine } from "./support/open-router.ts";

const prompt = { input_ids: [5, 6, 7] };
const versionOf = async (answer: Response): Promise<unknown> =>
  ((await answer.json()) as { meta_info: { weight_version: string } }).meta_info.weight_version;

test("a fenced request reaches an engine that has the version, wherever the fence stands", async () => {
  const engines = [await startEngine({ version: "3" }), await startEngine({ version: "4" })];
  const { ask } = await openRouter(engines, { pool: { health: { intervalMs: 60_000 } } });
  // The older one was current when it came; each fence is asked for often enough to meet both.
  for (let i = 0; i < 3; i++) {
    expect(await versionOf(await ask("/generate", prompt, { "x-muster-weight-version": "4" }))).toBe("4");
    expect(await versionOf(await ask("/generate", prompt, { "x-muster-min-weight-version": "4" }))).toBe("4");
    expect(await versionOf(await ask("/generate", prompt, { "x-muster-max-staleness": "0" }))).toBe("4");
    expect(await versionOf(await ask("/generate", { ...prompt, muster: { min_weight_version: 4 } }))).toBe("4");
  }
  expect(engines[1]?.requests.every(({ body }) => !("muster" in body))).toBe(true);
});

test("a fence that no engine satisfies waits for one that does", async () => {
  const engine = await startEngine({ version: "3" });
  const { ask } = await openRouter([engine], { pool: { health: { intervalMs: 210 } } });
  const asked = ask("/generate", prompt, { "x-muster-min-weight-version": "4" });
  engine.version = "4";
  expect(await versionOf(await asked)).toBe("4");
});

test("a fence that nobody satisfies in time is 503, and says what there is", async () => {
  const engine = await startEngine({ version: "3" });
  const { ask } = await openRouter([engine], { queue: { queueTimeoutMs: 50 } });
  const answer = await ask("/generate", prompt, { "x-muster-min-weight-version": "9" });
  expect(answer.status).toBe(503);
  expect(answer.headers.get("retry-after")).toBe("5");
  expect(await answer.json()).toMatchObject({
    error: { code: "fence_unmet", message: "no engine that serves has weight version at least 9; the newest is 3" },
  });
  expect(engine.served).toBe(0);
});

test("an engine that does not say its version is unverified, and never given a fenced request", async () => {
  const silent = await startEngine({ kind: "openai" });
  const { ask, router } = await openRouter([silent], { queue: { queueTimeoutMs: 50 } });
  const open = await ask("/generate", prompt);
  expect(open.status).toBe(200);
  expect(router.workers()[0]?.version).toBeNull();
  const fenced = await ask("/v1/completions", { prompt: "a" }, { "x-muster-weight-version": "default" });
  expect(fenced.status).toBe(503);
  expect(silent.served).toBe(1);
});

test("an answer of older weights than the engine had said is thrown away and asked of another one", async () => {
  const liar = await startEngine({ version: "5" });
  const good = await startEngine({ version: "5" });
  const { ask, metrics } = await openRouter([liar, good], { pool: { health: { intervalMs: 60_000 } } });
  liar.version = "4"; // restarted behind the same address, and not checked since
  for (let i = 0; i < 3; i++)
    expect(await versionOf(await ask("/generate", prompt, { "x-muster-min-weight-version": "5" }))).toBe("5");
  expect(await metrics()).toMatch(/muster_router_errors_total\{kind="stale"\} [1-9]/);
});

test("an engine whose answers say nothing of weights is asked before and after a fenced answer", async () => {
  const engine = await startEngine({ kind: "vllm", version: "5" });
  const { ask } = await openRouter([engine], { pool: { health: { intervalMs: 60_000 } }, retry: { attemptsMax: 1 } });
  const same = await ask("/v1/completions", { prompt: "a" }, { "x-muster-weight-version": "5" });
  expect(same.status).toBe(200);
  expect(same.headers.get("x-muster-weight-version-source")).toBe("probe");
  engine.version = "6"; // updated between the check and the answer
  const other = await ask("/v1/completions", { prompt: "a" }, { "x-muster-weight-version": "5" });
  expect(other.status).toBe(503);
});

test("an engine that is started again at its address with old weights is stale until it has the current ones", async () => {
  const good = await startEngine({ version: "8" });
  const bad = await startEngine({ version: "8" });
  const { ask, until } = await openRouter([good, bad], { pool: { health: { intervalMs: 210 } } });
  const { port } = bad;
  await bad.kill();
  await until("the dead one in quarantine", (workers) => workers[1]?.state === "quarantined");
  const again = await FakeEngine.start({ port, version: "0" });
  try {
    await until("it is stale", (workers) => workers[1]?.state === "stale");
    for (let i = 0; i < 4; i++) expect(await versionOf(await ask("/generate", prompt))).toBe("8");
    expect(again.served).toBe(0);
    again.version = "8";
    await until("it is healthy", (workers) => workers[1]?.state === "healthy");
    for (let i = 0; i < 4; i++) await (await ask("/generate", prompt)).text();
    expect(again.served).toBeGreaterThan(0);
  } finally {
    await again.kill();
  }
});

test("a restart that no check saw is noticed by the version that went back", async () => {
  const good = await startEngine({ version: "8" });
  const bad = await startEngine({ version: "8" });
  const { until } = await openRouter([good, bad], { pool: { health: { intervalMs: 210 } } });
  bad.version = "2";
  await until("it is stale, in another life", (workers) => workers[1]?.state === "stale" && workers[1].life === 2);
});

test("engines that say no version stay in quarantine until they are added again", async () => {
  const engine = await startEngine({ kind: "openai" });
  const { ask, until, url } = await openRouter([engine], { pool: { health: { intervalMs: 210 } } });
  const { port } = engine;
  await engine.kill();
  await until("quarantine", ([worker]) => worker?.state === "quarantined");
  const again = await FakeEngine.start({ port, kind: "openai" });
  try {
    await until("it answers and says why it stays", ([worker]) => worker?.why.includes("add it again") === true);
    const quarantined = (await (await ask("/quarantined")).json()) as { workers: unknown[] };
    expect(quarantined.workers).toHaveLength(1);
    await fetch(`${url}/add_worker?url=${again.url}`, { method: "POST" });
    await until("it serves", ([worker]) => worker?.state === "healthy" && worker.life === 2);
  } finally {
    await again.kill();
  }
});
