/**
 * Jobs on prompts of files: reinforcement learning, and supervised fine-tuning on the same rows, with deaths and without. The file takes longer than 20 s on
 * a busy machine: five jobs on real processes run, each start is a broker and six processes.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { spawnMuster, startJobRun } from "@muster/testkit";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { copyExample, type Example } from "./support/example-job.ts";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 30_000 });

let runs: Runs;
let example: Example;
beforeAll(async () => {
  runs = await openRuns();
  example = copyExample(runs, "own-prompts");
});
afterAll(() => runs.close());

const start = (job: string, ...settings: readonly string[]) =>
  example.start(job, "job.steps=6", "evaluation.every_steps=3", ...settings);

test("a job on prompts of files is a function of them: more replicas and the death of a sampler change no weight", async () => {
  const quiet = await start("quiet");
  const quietSummary = await quiet.ended();
  expect(quietSummary).toMatchObject({ steps: 6, ledger: { trained: 6 * 32 * 8, aborted: 0, quarantined: 0 } });
  const killed = await start("killed", "replicas.policy=2", "replicas.rollout=2");
  await killed.waitForEvent("step.committed");
  process.kill(killed.pidOf("rollout-0"), "SIGKILL");
  const summary = await killed.ended();
  expectBalanced(summary);
  expect(summary.weights_hash).toBe(quietSummary.weights_hash);
});

test("a job that learns from answers loses nothing when a trainer and a sampler die, and reinforcement learning goes on from what it made", async () => {
  const file = join(example.folder, "sft.toml");
  const sft = (job: string, ...settings: readonly string[]) =>
    startJobRun({
      ...{ runs: runs.path, job, file },
      args: [
        "job.steps=6",
        "evaluation.prompts=0",
        "evaluation.every_steps=4",
        "evaluation.loss_rows=40",
        ...settings,
      ].flatMap((setting) => ["--set", setting]),
    });
  const quietRun = await sft("taught");
  const quiet = await quietRun.ended();
  expect(quiet).toMatchObject({ steps: 6, reward_last: null, ledger: { trained: 6 * 32, aborted: 0, quarantined: 0 } });
  const killed = await sft("taught-killed", "replicas.policy=2", "replicas.rollout=2");
  await killed.waitForEvent("step.committed");
  process.kill(killed.pidOf("rollout-0"), "SIGKILL");
  process.kill(killed.pidOf("policy-0"), "SIGKILL");
  const summary = await killed.ended();
  expectBalanced(summary);
  expect(summary.weights_hash).toBe(quiet.weights_hash);
  // What is measured, and changes no weights: the same to the last bit, whoever measured which rows.
  const heldOut = (run: typeof killed) =>
    run.events("step.committed").flatMap(({ step, heldOutLoss }) => (heldOutLoss ? [[step, heldOutLoss]] : []));
  expect(heldOut(quietRun).map(([step]) => step)).toEqual([4, 6]);
  expect(quiet.held_out_loss_last).toBeLessThan(Number(quiet.held_out_loss_first));
  expect(heldOut(killed)).toEqual(heldOut(quietRun));
  const bare = await (await sft("taught-bare", "evaluation.every_steps=0", "evaluation.loss_rows=0")).ended();
  expect(bare.weights_hash).toBe(quiet.weights_hash);
  expect(bare).toMatchObject({ held_out_loss_first: null, held_out_loss_last: null });
  const losses = killed.events("step.committed").map(({ loss }) => loss);
  expect(losses.at(-1)).toBeLessThan(0.8 * Number(losses[0]));

  const warm = join(runs.path, "warm-start");
  const exported = await spawnMuster(["export", join(runs.path, "taught", "checkpoints"), "--out", warm]);
  expect((await exported.exited).code).toBe(0);
  const after = await start("rewarded", "job.steps=1", `weights.source=folder:${warm}`);
  expect(await after.ended()).toMatchObject({ steps: 1, ledger: { trained: 32 * 8, aborted: 0 } });
});

test("a row that makes no prompt is met before anything runs", async () => {
  const rows = readFileSync(join(example.folder, "train.jsonl"), "utf8").trimEnd().split("\n");
  rows[20] = '{"prompt":"is 7 odd ?"}';
  writeFileSync(join(example.folder, "spoiled.jsonl"), rows.join("\n"));
  const run = await runs.muster(
    "run",
    join(example.folder, "job.toml"),
    "--set",
    `prompts.train=${join(example.folder, "spoiled.jsonl")}`,
  );
  expect(await run.exited).toMatchObject({ code: 2 });
  expect(run.lines.join("\n")).toContain('spoiled.jsonl: it has no column "answer" (columns: prompt)');
});
