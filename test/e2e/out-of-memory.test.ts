/** The kernel ends a sampler for want of memory: its cause reaches the operator, and its work goes on elsewhere. */
import { memoryLimitMissing, openMemoryLimit } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { digestOfLocalTraining, expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

const missing = memoryLimitMissing();

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

test("a sampler that the kernel ends for want of memory is told as such; its groups go to another, and no bit of the weights changes", async (context) => {
  context.skip(missing !== null, missing ?? "");
  const run = await runs.start("short", "--steps", "150", "--set", "replicas.rollout=2");
  const { id, incarnation } = await run.waitForEvent("member.joined", (event) => event.id === "rollout-1");
  await run.waitForEvent("step.committed");
  // Less than it holds already: the next pages that it touches are too many.
  const limit = openMemoryLimit(`muster-test-${process.pid}`, 4 * 1024 * 1024);
  try {
    limit.hold(run.pidOf("rollout-1"));
    const died = await run.waitForEvent("member.died", (event) => event.incarnation === incarnation);
    expect(died).toMatchObject({ id, evidence: "process ended with SIGKILL, short of memory" });
  } finally {
    limit.close();
  }
  await run.waitForEvent("member.joined", (event) => event.id === id && event.incarnation !== incarnation);
  const summary = await run.ended();
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
  expectBalanced(summary);
});
