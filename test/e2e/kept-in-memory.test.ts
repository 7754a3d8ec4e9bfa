/**
 * A job with one policy replica, few checkpoints on disk, and training state in the memory of its checkpoint actor. About 25 s: the replica is killed again
 * and again, and each time one has to come back.
 */
import { startJobRun } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { digestOfLocalTraining, expectBalanced, jobFile, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const lives = 4;

test("kill -9 of the only policy replica, again and again, costs a step at most, and the weights are those of a quiet run", async () => {
  const one = ["--policy", "1", "--rollout", "1", "--set", "init_replicas.policy=1"];
  const run = await runs.start("kept", "--steps", "40", ...one, "--set", "checkpoint.every_steps=50");
  const livesOf = (): number => run.events("member.joined").filter(({ id }) => id === "policy-0").length;
  const committed = (): number => run.events("step.committed").at(-1)?.step ?? 0;
  for (let life = 1; life <= lives; life++) {
    const from = committed();
    await run.waitForEvent("step.committed", ({ step }) => step >= from + 5);
    process.kill(run.pidOf("policy-0"), "SIGKILL");
    await run.waitForEvent("member.joined", () => livesOf() > life);
  }
  const summary = await run.ended();
  expect(summary.steps).toBe(40);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
  expectBalanced(summary);
  // A step that was committed twice was lost in between.
  const steps = run.events("step.committed").map(({ step }) => step);
  expect(steps.length - new Set(steps).size).toBeLessThanOrEqual(lives);
  for (const [i, step] of steps.entries()) expect(step).toBeGreaterThanOrEqual(steps[i - 1] ?? 0);
  const rollbacks = run.events("alarm.raised").filter(({ alarm }) => alarm === "rollback");
  for (const { detail } of rollbacks) expect(detail).toContain("kept in memory");
}, 120_000);

const set = (one: string): readonly string[] => ["--set", one];

/** Every process of the run hears from its runtime that the host has hardly any memory left. */
const noRoom = { NODE_OPTIONS: "--import=data:text/javascript,process.availableMemory=()=>200000" };

test("where there is no room for two versions the checkpoint actor says so once, and the job goes on from its disk: nothing is lost", async () => {
  const small = ["checkpoint.every_steps=4", "batch.groups_per_step=4", "evaluation.prompts=16"];
  const args = [
    "--policy",
    "1",
    "--rollout",
    "1",
    "--steps",
    "8",
    ...["init_replicas.policy=1", ...small].flatMap(set),
  ];
  const run = await startJobRun({ runs: runs.path, job: "short", file: jobFile, args, env: noRoom });
  const { detail } = await run.waitForEvent("alarm.raised", ({ alarm }) => alarm === "memory-copy");
  expect(detail).toMatch(/^checkpoint-0 keeps no training state in memory: two versions of the training state take /);
  expect(detail).toContain("give the host or its container more memory, or set checkpoint.memory_every = 0");
  await run.waitForEvent("checkpoint.kept");
  await run.waitForEvent("step.committed", ({ step }) => step >= 5);
  process.kill(run.pidOf("policy-0"), "SIGKILL");
  const back = await run.waitForEvent("alarm.raised", ({ alarm }) => alarm === "rollback");
  expect(back.detail).toMatch(/going back to step 4 in lineage 1$/);
  const summary = await run.ended();
  expect(summary.steps).toBe(8);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
  expectBalanced(summary);
  expect(run.events("alarm.raised").filter(({ alarm }) => alarm === "memory-copy")).toHaveLength(1);
}, 60_000);
