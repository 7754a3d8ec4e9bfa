import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 240_000, hookTimeout: 30_000 });

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const set = (...settings: readonly string[]): string[] => settings.flatMap((setting) => ["--set", setting]);
const brief = ["job.steps=2", "evaluation.prompts=0", "evaluation.every_steps=0"];
const small = [...brief, "limits.chunk_groups=2"];
const shipped = (name: string): string => fileURLToPath(new URL(`../../jobs/modules/${name}`, import.meta.url));

test("the modules that are shipped reward and generate a whole job", async () => {
  const modules = [`task.reward=${shipped("partial-credit.mjs")}`, `rollout.generate=${shipped("second-try.mjs")}`];
  const run = await runs.start("modules", ...set(...small, ...modules));
  const summary = await run.ended();
  expect(summary).toMatchObject({ steps: 2, ledger: { trained: 2 * 16 * 8, aborted: 0, quarantined: 0 } });
  expectBalanced(summary);
});

test("a prompt that ends the process of every replica that takes it ends three, one at a time, and is quarantined", async () => {
  const path = join(runs.path, "poison.mjs");
  writeFileSync(
    path,
    `export default async ({ groupId, sample, engine, prompt }) => {
      if (groupId === "1.7" && sample === 3) process.exit(9);
      const { responseIds, logprobs, finish } = await engine.generate({ promptIds: prompt.ids });
      return { responseIds, logprobs, finish };
    };`,
  );
  // Many tiny chunks to a lease: no more of them may be untold at its end than the controller takes for suspects.
  const manyChunks = [...brief, "limits.chunk_groups=1", "replicas.rollout=2"];
  const run = await runs.start("poison", ...set(...manyChunks, `rollout.generate=${path}`));
  const summary = await run.ended();
  expect(summary).toMatchObject({ steps: 2, ledger: { trained: (2 * 16 - 1) * 8, aborted: 0, quarantined: 8 } });
  const deaths = run.events("member.died").filter(({ role }) => role === "rollout");
  expect(deaths, JSON.stringify(run.events("member.died"))).toHaveLength(3);
  expect(run.events("groups.quarantined")).toMatchObject([{ item: "1.7", attempts: 3, failure: "engine_crash" }]);
  expect(new Set(deaths.map(({ id }) => id)).size, "replicas that it ended").toBe(2);
});

test("a prompt that hangs every replica that takes it in an endless loop hangs three, and is quarantined", async () => {
  const path = join(runs.path, "endless.mjs");
  writeFileSync(
    path,
    `export default async ({ groupId, sample, engine, prompt }) => {
      if (groupId === "1.7" && sample === 3) for (;;);
      const { responseIds, logprobs, finish } = await engine.generate({ promptIds: prompt.ids });
      return { responseIds, logprobs, finish };
    };`,
  );
  const soon = ["health.hung_min=2s", "health.hung_max=4s", "replicas.rollout=3"];
  const run = await runs.start("endless", ...set(...brief, ...soon, `rollout.generate=${path}`));
  const summary = await run.ended();
  expect(summary).toMatchObject({ steps: 2, ledger: { trained: (2 * 16 - 1) * 8, aborted: 0, quarantined: 8 } });
  expect(run.events("groups.quarantined")).toMatchObject([{ item: "1.7", attempts: 3, failure: "engine_crash" }]);
  expectBalanced(summary);
});

test("a prompt that fills the memory of its replica is quarantined after two, and the cause says what ended them", async () => {
  const path = join(runs.path, "greedy.mjs");
  writeFileSync(
    path,
    `export default async ({ groupId, sample, engine, prompt }) => {
      if (groupId === "1.7" && sample === 3) for (const all = []; ; ) all.push(new Array(1e6).fill(all.length));
      const { responseIds, logprobs, finish } = await engine.generate({ promptIds: prompt.ids });
      return { responseIds, logprobs, finish };
    };`,
  );
  const before = process.env.NODE_OPTIONS;
  process.env.NODE_OPTIONS = "--max-old-space-size=256";
  const run = await runs.start("greedy", ...set(...small, "replicas.rollout=2", `rollout.generate=${path}`));
  if (before === undefined) delete process.env.NODE_OPTIONS;
  else process.env.NODE_OPTIONS = before;
  const summary = await run.ended();
  expect(summary).toMatchObject({ steps: 2, ledger: { trained: (2 * 16 - 1) * 8, aborted: 0, quarantined: 8 } });
  const deaths = run.events("member.died").filter(({ role }) => role === "rollout");
  const how = expect.stringMatching(/^process ended with SIGABRT, short of memory: FATAL ERROR: .*heap out of memory/);
  expect(deaths.map(({ evidence }) => evidence)).toEqual([how, how]);
  expect(run.events("groups.quarantined")).toMatchObject([{ item: "1.7", attempts: 2, failure: "oom" }]);
});

test("work that a module leaves behind ends neither the process nor another trajectory when it fails later", async () => {
  const path = join(runs.path, "detached.mjs");
  writeFileSync(
    path,
    `export default async ({ groupId, sample, engine, prompt }) => {
      if (sample === 0) setTimeout(() => Promise.reject(new Error("nobody waits for me")), 0);
      if (groupId === "1.3" && sample === 1) {
        setTimeout(() => { throw new RangeError("from a timer"); }, 0);
        await new Promise(() => {});
      }
      const { responseIds, logprobs, finish } = await engine.generate({ promptIds: prompt.ids });
      return { responseIds, logprobs, finish };
    };`,
  );
  const run = await runs.start("detached", ...set(...small, `rollout.generate=${path}`));
  const summary = await run.ended();
  expect(run.events("member.died")).toEqual([]);
  expect(summary.ledger.trained + summary.ledger.aborted).toBe(2 * 16 * 8);
  const told = run.events("groups.aborted");
  expect(told.filter(({ name }) => name === "RangeError")).toMatchObject([
    { message: "from a timer", sample: "1.3/1", count: 1, failure: "user_error" },
  ]);
});
