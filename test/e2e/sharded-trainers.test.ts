/**
 * Trainers of two processes with a shard of the training state each, on real processes: samplers of two processes and of one take versions from the shards, a process
 * dies while a version is published, all trainers die at once and come back from a checkpoint, and the weights are those of the quiet run. It takes longer than 20 seconds: two whole jobs, and eight processes that start three times.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { loadCheckpoint } from "@muster/checkpoint";
import { needsOfTask, taskOf } from "@muster/data";
import { type JobRun, processesNaming, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ranksJob } from "./support/ranks-job.ts";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const argsOf = (samplers: number): readonly string[] => [
  ...["--steps", "24", "--policy", "2", "--rollout", "1"],
  ...ranksJob(
    runs.path,
    "job.seed=7",
    "checkpoint.memory_every=0",
    "init_replicas.policy=2",
    "processes.policy=2",
    `processes.rollout=${samplers}`,
  ),
];

/** The process of a trainer that is not its rank 0. */
function secondOf(id: string): readonly number[] {
  return processesNaming(runs.path)
    .filter(({ args }) => args.includes("policy") && args.includes(id) && args.includes("--rank"))
    .map(({ pid }) => pid);
}

interface Published {
  readonly version: number;
  readonly parts: readonly string[];
  readonly sections: readonly { readonly name: string; readonly bytes: number; readonly digest: string }[];
}

/** What a process published of each version, by its own log. */
function publishedBy({ directory }: JobRun, name: string): readonly Published[] {
  const lines = readFileSync(join(directory, "logs", `${name}.log`), "utf8").split("\n");
  return lines.filter((line) => line.includes('"shard published"')).map((line) => JSON.parse(line) as Published);
}

/** The digest of each version's weights in one process. A joiner may have the training part of a version published by itself, later. */
const weightsBy = (run: JobRun, name: string): ReadonlyMap<number, string> =>
  new Map(
    publishedBy(run, name).flatMap(({ version, sections }) =>
      sections.filter((one) => one.name === "weights").map(({ digest }) => [version, digest] as const),
    ),
  );

async function newestOf(run: JobRun) {
  const folder = join(run.directory, "checkpoints");
  const newest = readdirSync(folder)
    .filter((name) => name.startsWith("step-"))
    .sort()
    .at(-1);
  return await loadCheckpoint(join(folder, String(newest)));
}

test("processes die while a version is published, and all trainers at once: the weights are those of the quiet run", async () => {
  const quietRun = await runs.start("shards-quiet", ...argsOf(1));
  const quiet = await quietRun.ended();
  const run = await runs.start("shards-killed", ...argsOf(2));
  await run.waitForEvent("step.committed", ({ step }) => Number(step) >= 2, 60_000);
  // Committed, and not published yet, or just being published.
  const [victim = 0] = secondOf("policy-0");
  process.kill(victim, "SIGKILL");
  await run.waitForEvent("member.died", ({ id }) => id === "policy-0", 30_000);
  const isBack = (id: string, old: number) => secondOf(id).length === 1 && !secondOf(id).includes(old);
  await waitFor(() => isBack("policy-0", victim), { what: "policy-0 of the next life", timeoutMs: 30_000 });
  await run.waitForEvent("step.committed", ({ step }) => Number(step) >= 6, 60_000);
  const all = [...secondOf("policy-0"), ...secondOf("policy-1")];
  expect(all).toHaveLength(2);
  for (const pid of all) process.kill(pid, "SIGKILL");
  const summary = await run.ended();
  expectBalanced(summary);
  expect(summary).toMatchObject({ lost: 0, doubled: 0, weights_hash: quiet.weights_hash });
  const rows = needsOfTask(taskOf("dates")).vocab;
  const halves = [Math.ceil(rows / 2), Math.floor(rows / 2)];
  for (const [rank, name] of ["policy-1", "policy-1.1"].entries()) {
    const expected = weightsBy(quietRun, name);
    const found = [...weightsBy(run, name)].filter(([version]) => expected.has(version));
    expect(found.length).toBeGreaterThan(4);
    for (const [version, digest] of found) expect([version, digest]).toEqual([version, expected.get(version)]);
    for (const { sections } of publishedBy(run, name))
      for (const { bytes } of sections) expect(bytes).toBe(4 * (halves[rank] ?? 0));
  }
  const [ours, theirs] = [await newestOf(run), await newestOf(quietRun)];
  expect(ours.sections).toEqual(theirs.sections);
  expect(ours.tensors.map(({ name, shape }) => [name, shape])).toEqual([["echo.weight", [rows]]]);
}, 180_000);
