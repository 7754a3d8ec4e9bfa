/** Checkpoints that went bad on the disk while nobody looked (reliability H3). */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { JobRun } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { digestOfLocalTraining, expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

const args = ["--steps", "24", "--set", "checkpoint.keep=2"];

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

/** Names of the run's checkpoints, oldest first. */
const checkpointsOf = (run: Pick<JobRun, "directory">): readonly string[] =>
  readdirSync(join(run.directory, "checkpoints"))
    .filter((name) => name.startsWith("step-"))
    .sort();

/** One bit of a checkpoint flips. */
function rot(run: Pick<JobRun, "directory">, name: string): void {
  const path = join(run.directory, "checkpoints", name, "model.safetensors");
  const bytes = readFileSync(path);
  const at = bytes.length >> 1;
  bytes[at] = (bytes[at] ?? 0) ^ 1;
  writeFileSync(path, bytes);
}

/** Runs the first steps of a job and stops it with Ctrl-C. */
async function stopped(job: string): Promise<JobRun> {
  const run = await runs.start(job, ...args);
  await run.waitForEvent("checkpoint.kept", ({ step }) => step >= 8);
  process.kill(-run.process.pid, "SIGINT");
  await run.ended(130);
  return run;
}

test("a stopped run whose newest checkpoint has rotted goes on from the one before it, says so, and ends with the same weights", async () => {
  const first = await stopped("rotten");
  runs.damaged("rotten");
  const [older, newest = ""] = checkpointsOf(first);
  rot(first, newest);
  const second = await runs.start("rotten", ...args);
  const summary = await second.ended();
  expect(summary.steps).toBe(24);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(second));
  expectBalanced(summary);
  const [alarm] = second.events("alarm.raised").filter(({ alarm }) => alarm === "damaged-checkpoint");
  expect(alarm?.detail).toContain(`checkpoint ${newest} can not be restored on `);
  expect(alarm?.detail).toContain(": model.safetensors does not have the sha-256 of the manifest");
  const back = second.events("alarm.raised").filter(({ alarm }) => alarm === "rollback");
  expect(back.at(-1)?.detail).toContain(`going back to step ${Number(older?.slice(5, 13))} in lineage 2`);
});

test("a stopped run whose checkpoints are all damaged ends at once, and names each of them", async () => {
  runs.damaged("all-rotten");
  const first = await stopped("all-rotten");
  const names = checkpointsOf(first);
  for (const name of names) rot(first, name);
  const startedMs = performance.now();
  const second = await runs.start("all-rotten", ...args);
  await second.ended(1);
  expect(performance.now() - startedMs).toBeLessThan(30_000);
  const [end] = second.events("job.ended").filter(({ outcome }) => outcome === "failed");
  for (const name of names) expect(end?.reason).toContain(`${name}: model.safetensors does not have the sha-256`);
});
