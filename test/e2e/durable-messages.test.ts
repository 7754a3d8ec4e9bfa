/**
 * What a step costs its broker: each durable message is a synced write, and the control of a job must not need more of them than this.
 *
 * Ten whole steps of the default job are counted, which takes a few seconds, and half a minute or more where the machine is busy.
 */
import { countStepMessages } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRuns, type Runs } from "./support/small-job.ts";

const messagesMax = 30;

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

test(`a step of the default job takes at most ${messagesMax} durable messages`, async () => {
  // Two trainers, two samplers, a checkpoint actor, 128 groups a step; what comes only now and then is left out.
  const asItIs = ["batch.groups_per_step=128", "evaluation.every_steps=0", "checkpoint.every_steps=0"];
  const run = await runs.start("counted", "--steps", "14", ...asItIs.flatMap((set) => ["--set", set]));
  const counted = await countStepMessages({ ...run, fromStep: 3, toStep: 13 });
  expect(counted.total, JSON.stringify(counted)).toBeLessThanOrEqual(messagesMax);
  // Each trainer is told to run and to apply, each sampler gets work and says what became of it: a count below that is no count.
  expect(counted.total, JSON.stringify(counted)).toBeGreaterThan(20);
  expect((await run.ended()).lost).toBe(0);
}, 120_000);
