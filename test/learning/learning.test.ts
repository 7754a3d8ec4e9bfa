/**
 * What takes minutes to learn is learned, whoever dies meanwhile: the date task by trainers in PyTorch, and what the agents of the examples are to do.
 * By hand, with `npm run test:learning`.
 */
import { type JobRun, startJobRun } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { copyExample } from "../e2e/support/example-job.ts";
import { expectBalanced, jobFile, openRuns, type Runs } from "../e2e/support/small-job.ts";
import { python, torchTrainer } from "../e2e/support/torch.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const minutes = 60_000;

/** Kills a replica once some steps are done, and waits for the end. */
async function endedWithout(run: JobRun, replica: string) {
  await run.waitForEvent("step.committed", ({ step }) => step >= 10, 5 * minutes);
  process.kill(run.pidOf(replica), "SIGKILL");
  await run.waitForEvent("member.died", ({ id }) => id === replica, minutes);
  const summary = await run.ended();
  expectBalanced(summary);
  return summary;
}

test("two trainers in PyTorch with embedded samplers train the date task past its target, though one is killed", {
  timeout: 30 * minutes,
}, async (context) => {
  context.skip(python === undefined, "no python3 here has torch");
  const settings = [...torchTrainer(runs.path, "dates"), "engine.rollout=embedded"];
  const args = settings.flatMap((setting) => ["--set", setting]);
  const summary = await endedWithout(
    await startJobRun({ runs: runs.path, job: "dates", file: jobFile, args }),
    "policy-1",
  );
  // What the example job is to reach with the embedded engine.
  expect(summary.reward_last).toBeGreaterThanOrEqual(0.9);
  expect(summary.eval_last).toBeGreaterThanOrEqual(0.85);
});

test.each([
  ["agent", { first: 0.3, last: 0.9 }],
  ["agent-typescript", { first: 0.3, last: 0.5 }],
])(
  "the %s of the examples learns its task, though a sampler is killed",
  { timeout: 30 * minutes },
  async (name, reward) => {
    const run = await copyExample(runs, name).start(name);
    const summary = await endedWithout(run, "rollout-0");
    expect(summary.reward_first).toBeLessThan(reward.first);
    expect(summary.reward_last).toBeGreaterThan(reward.last);
  },
);
