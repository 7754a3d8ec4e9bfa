/**
 * A task in a module of one's own: its job is a function of the module, whoever dies and whenever it goes on, and of no other module.
 *
 * The file takes about 20 s: two jobs on real processes run, one of them twice because it is resumed; each start is a broker and seven processes.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { copyExample, type Example } from "./support/example-job.ts";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 30_000 });

let runs: Runs;
let example: Example;
beforeAll(async () => {
  runs = await openRuns();
  example = copyExample(runs, "own-task");
});
afterAll(() => runs.close());

const start = (job: string, ...settings: readonly string[]) =>
  example.start(job, "job.steps=5", "evaluation.every_steps=5", "checkpoint.every_steps=2", ...settings);

test("a job of a task module is a function of it: a sampler is killed, the run is interrupted, refuses another module, and goes on to the same weights", async () => {
  const quiet = await (await start("quiet")).ended();
  expect(quiet).toMatchObject({ steps: 5, ledger: { trained: 5 * 64 * 8, aborted: 0, quarantined: 0 } });
  const run = await start("resumed");
  await run.waitForEvent("step.committed");
  process.kill(run.pidOf("rollout-0"), "SIGKILL");
  await run.waitForEvent("step.committed", ({ step }) => Number(step) >= 2);
  process.kill(-run.process.pid, "SIGINT");
  await run.ended(130);

  const path = join(example.folder, "task.mjs");
  const text = readFileSync(path, "utf8");
  writeFileSync(path, text.replace("Math.max", "Math.min"));
  const refused = await runs.muster("run", "--job", "resumed");
  expect((await refused.exited).code).toBe(2);
  expect(refused.lines.join("\n")).toContain(`${path} is not what it was when the job was made`);

  writeFileSync(path, text);
  const summary = await (await start("resumed")).ended();
  expectBalanced(summary);
  expect(summary.weights_hash).toBe(quiet.weights_hash);
});
