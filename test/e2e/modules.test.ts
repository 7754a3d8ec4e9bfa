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

/** A task of the user's whose prompt 7 of step 3, which no check asks for, does this to the process of its sampler. */
function poisonedTask(name: string, does: string): readonly string[] {
  const path = join(runs.path, name);
  writeFileSync(
    path,
    `export const task = {
      vocabulary: "$0123456789+=",
      maxPromptTokens: 8,
      trainPrompt({ step, index, random }) {
        if (step === 3 && index === 7) ${does};
        const [a, b] = [random.below(10), random.below(10)];
        return { prompt: a + "+" + b + "=", answer: a + b };
      },
      reward: ({ prompt, responseText }) => (responseText === prompt.answer ? 1 : 0),
    };`,
  );
  return [
    `task.name=${path}`,
    "job.steps=3",
    "evaluation.prompts=0",
    "evaluation.every_steps=0",
    "weights.source=seed",
  ];
}

test("modules that end their process, loop without end or fill its memory cost their three trajectories, and no replica", async () => {
  const path = join(runs.path, "bad.mjs");
  writeFileSync(
    path,
    `export default async ({ groupId, sample, engine, prompt }) => {
      if (groupId === "1.3" && sample === 1) process.exit(9);
      if (groupId === "1.7" && sample === 3) for (;;);
      if (groupId === "2.5" && sample === 0) for (const all = []; ; ) all.push(new Array(1e6).fill(all.length));
      const { responseIds, logprobs, finish } = await engine.generate({ promptIds: prompt.ids });
      return { responseIds, logprobs, finish };
    };`,
  );
  const limits = ["limits.module_memory=128MiB", "timing.generate=6s"];
  const run = await runs.start("bad", ...set(...brief, ...limits, `rollout.generate=${path}`));
  const summary = await run.ended();
  expect(run.events("member.died")).toEqual([]);
  expect(summary).toMatchObject({ steps: 2, ledger: { trained: 2 * 16 * 8 - 3, aborted: 3, quarantined: 0 } });
  const told = Object.fromEntries(run.events("groups.aborted").map(({ sample, message }) => [sample, message]));
  expect(told).toEqual({
    "1.3/1": expect.stringContaining("bad.mjs is gone: it ended with exit code 9"),
    "1.7/3": expect.stringContaining("computed for 3000 ms without giving way"),
    "2.5/0": expect.stringContaining("bad.mjs has no memory left"),
  });
  expectBalanced(summary);
});

test("a prompt that ends the process of every replica that takes it ends three, one at a time, and is quarantined", async () => {
  // Many tiny chunks to a lease: no more of them may be untold at its end than the controller takes for suspects.
  const manyChunks = ["limits.chunk_groups=1", "replicas.rollout=2"];
  const run = await runs.start("poison", ...set(...poisonedTask("poison.mjs", "process.exit(9)"), ...manyChunks));
  const summary = await run.ended();
  expect(summary).toMatchObject({ steps: 3, ledger: { trained: (3 * 16 - 1) * 8, aborted: 0, quarantined: 8 } });
  const deaths = run.events("member.died").filter(({ role }) => role === "rollout");
  expect(deaths, JSON.stringify(run.events("member.died"))).toHaveLength(3);
  expect(run.events("groups.quarantined")).toMatchObject([{ item: "3.7", attempts: 3, failure: "engine_crash" }]);
  expect(new Set(deaths.map(({ id }) => id)).size, "replicas that it ended").toBe(2);
});

test("a prompt that fills the memory of its replica is quarantined after two, and the cause says what ended them", async () => {
  const fills = "for (const all = []; ; ) all.push(new Array(1e6).fill(all.length))";
  const before = process.env.NODE_OPTIONS;
  process.env.NODE_OPTIONS = "--max-old-space-size=256";
  const greedy = [...poisonedTask("greedy.mjs", fills), "limits.chunk_groups=2", "replicas.rollout=2"];
  const run = await runs.start("greedy", ...set(...greedy));
  if (before === undefined) delete process.env.NODE_OPTIONS;
  else process.env.NODE_OPTIONS = before;
  const summary = await run.ended();
  expect(summary).toMatchObject({ steps: 3, ledger: { trained: (3 * 16 - 1) * 8, aborted: 0, quarantined: 8 } });
  const deaths = run.events("member.died").filter(({ role }) => role === "rollout");
  const how = expect.stringMatching(/^process ended with SIGABRT, short of memory: FATAL ERROR: .*heap out of memory/);
  expect(deaths.map(({ evidence }) => evidence)).toEqual([how, how]);
  expect(run.events("groups.quarantined")).toMatchObject([{ item: "3.7", attempts: 2, failure: "oom" }]);
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
