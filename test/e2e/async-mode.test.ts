import { afterAll, beforeAll, expect, test } from "vitest";
import { expectBalanced, failuresOf, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

test("async mode overlaps sampling and training, and trains nothing older than the bound", async () => {
  const run = await runs.start("overlapped", "--mode", "async", "--set", "job.staleness_max=2", "--steps", "30");
  const summary = await run.ended();
  const staleness = run.events("step.committed").map((step) => step.staleness);
  expect(staleness).toHaveLength(30);
  expect(Math.max(...staleness)).toBeLessThanOrEqual(2);
  expect(Math.max(...staleness)).toBeGreaterThan(0);
  expect(failuresOf(summary)).toEqual([]);
  expectBalanced(summary);
});
