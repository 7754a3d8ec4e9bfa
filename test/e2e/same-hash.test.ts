import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { JobRun } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  digestOfLocalTraining,
  expectBalanced,
  failuresOf,
  localTraining,
  openRuns,
  type Runs,
} from "./support/small-job.ts";

const meanOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

describe("the final weights are those of training in one process", () => {
  let expected: string;

  test.each([
    { policy: 1, rollout: 1 },
    { policy: 2, rollout: 2 },
    { policy: 3, rollout: 4 },
  ])("with $policy policy and $rollout rollout replicas", async ({ policy, rollout }) => {
    const init = ["--set", `init_replicas.policy=${policy}`, "--set", `init_replicas.rollout=${rollout}`];
    const counts = ["--policy", String(policy), "--rollout", String(rollout)];
    const run = await runs.start(`size-${policy}-${rollout}`, "--steps", "10", ...counts, ...init);
    const summary = await run.ended();
    expected ??= await digestOfLocalTraining(run);
    expect(summary.weights_hash).toBe(expected);
    expect(failuresOf(summary)).toEqual([]);
    expectBalanced(summary);
  });

  test("whoever joins and leaves in between", async () => {
    const one = ["--policy", "1", "--rollout", "1", "--set", "init_replicas.policy=1"];
    const run = await runs.start("guests", "--steps", "40", ...one);
    await run.waitForEvent("job.started");
    const policy = await runs.muster("policy", "--job", "guests", "--id", "guest-policy");
    const rollout = await runs.muster("rollout", "--job", "guests", "--id", "guest-rollout");
    await run.waitForEvent("member.joined", ({ id }) => id === "guest-rollout");
    await run.waitForEvent("step.committed", ({ members }) => members === 2);
    rollout.signal("SIGINT");
    policy.signal("SIGINT");
    expect([(await rollout.exited).code, (await policy.exited).code]).toEqual([0, 0]);
    const summary = await run.ended();
    expect(run.events("step.committed").at(-1)).toMatchObject({ members: 1 });
    expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
    expectBalanced(summary);
  });
});

describe("the final weights are the same when kill -9 ends", () => {
  const checkpointEvery = 8;
  let run: JobRun;
  const kill = (...ids: string[]): void => {
    for (const id of ids) process.kill(run.pidOf(id), "SIGKILL");
  };
  const committed = () => run.events("step.committed").at(-1)?.step ?? 0;
  const goesOn = async (steps = 3) => {
    const from = committed();
    await run.waitForEvent("step.committed", ({ step }) => step >= from + steps);
  };
  const isBack = async (id: string, lives: number) => {
    await run.waitForEvent("member.joined", () => livesOf(id) >= lives);
  };
  const livesOf = (id: string) => run.events("member.joined").filter((event) => event.id === id).length;

  beforeAll(async () => {
    // Nothing is kept in memory, so that the loss of all trainers repeats whatever no checkpoint on disk covers.
    const rare = ["--set", "checkpoint.memory_every=0", "--set", `checkpoint.every_steps=${checkpointEvery}`];
    run = await runs.start("killed", "--steps", "64", "--rollout", "1", ...rare);
    await run.waitForEvent("step.committed", ({ step }) => step >= 2);
  });

  test.each(["rollout-0", "policy-1", "checkpoint-0"])("%s", async (id) => {
    kill(id);
    await run.waitForEvent("member.died", (event) => event.id === id, 10_000);
    await isBack(id, 2);
    await goesOn();
  });

  test("the controller", async () => {
    kill("controller");
    await run.waitForEvent("job.started", ({ term }) => term === 2);
    await goesOn();
  });

  test("all policy replicas at once", async () => {
    // Right behind a checkpoint, with several steps to go to the next one: some steps are repeated, however late the kill is.
    const from = committed();
    await run.waitForEvent("step.committed", ({ step }) => step > from && step % checkpointEvery === 2);
    kill("policy-0", "policy-1");
    await isBack("policy-0", 2);
    await goesOn();
  });

  test("and it ends with nothing lost and nothing trained twice", async () => {
    const summary = await run.ended();
    expect(summary.steps).toBe(64);
    expect(run.events("job.started")).toHaveLength(2);
    expectBalanced(summary);
  });

  test("and what it says of its rewards is what a run says in which nobody dies", async () => {
    const summary = await run.ended();
    const { digest, rewards } = await localTraining(run);
    expect(run.events("step.committed").length).toBeGreaterThan(rewards.length);
    const metrics = readFileSync(join(run.directory, "metrics.jsonl"), "utf8").trim().split("\n");
    const steps: { step: number; reward: number }[] = metrics.map((line) => JSON.parse(line));
    expect(steps.map(({ step }) => step)).toEqual(rewards.map((_, i) => i + 1));
    for (const [i, { reward }] of steps.entries()) expect(reward).toBeCloseTo(rewards[i] ?? Number.NaN, 10);
    expect(summary.reward_first).toBeCloseTo(meanOf(rewards.slice(0, 10)), 10);
    expect(summary.reward_last).toBeCloseTo(meanOf(rewards.slice(-10)), 10);
    expect(summary.weights_hash).toBe(digest);
  });
});
