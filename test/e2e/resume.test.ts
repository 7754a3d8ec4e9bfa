import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { replayJournal } from "@muster/actors/internal";
import { controllerLogic, planOf } from "@muster/machines/controller";
import { type JobRun, type JobSummary, processesNaming, readEventFile, summaryOf, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  configOf,
  digestOfLocalTraining,
  expectBalanced,
  failuresOf,
  nothingLeft,
  openRuns,
  type Runs,
} from "./support/small-job.ts";
import { lookIntoStore } from "./support/stored-run.ts";

const args = ["--steps", "24"];
/** The learning rate stays, so that a step is the same however many there are. */
const steady = ["--set", "optimizer.lr_final_ratio=1"];

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

/** The step at which a program with other rules would go on with a run. */
function stepForAnotherProgram(run: JobRun): Promise<number> {
  const rules = { digest: "of-another-program", build: "0.9.0" };
  return lookIntoStore(run, async (transport) => {
    const { snapshot } = await replayJournal(transport.journal(), planOf(configOf(run)), controllerLogic, rules);
    return snapshot.context.state.step.step;
  });
}

/** The learning rate of each step that stands. */
function ratesOf({ directory }: JobRun): readonly number[] {
  const lines = readFileSync(join(directory, "metrics.jsonl"), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line).lr);
}

/** The times of a job are those of its events, in all of its runs, without the pause between them. */
function expectTimesOfJob(run: JobRun, summary: JobSummary): void {
  const read = (name: string) =>
    readFileSync(join(run.directory, name), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  const [first, ...later] = read("events.jsonl");
  const again = later.findIndex(({ kind }) => kind === "job.started");
  const pauseMs = Date.parse(later[again].at) - Date.parse(later[again - 1].at);
  const wallMs = Date.parse(later.at(-1).at) - Date.parse(first.at) - pauseMs;
  expect(Math.abs(summary.wall_s * 1_000 - wallMs)).toBeLessThan(2);
  const steps = read("metrics.jsonl");
  expect(steps.map(({ step }) => step)).toEqual(Array.from({ length: 24 }, (_, i) => i + 1));
  expect([steps[0].lineage, steps[23].lineage]).toEqual([0, 1]);
  const tokens = steps.reduce((sum, step) => sum + step.tokens, 0);
  expect(summary.tokens_per_s).toBeCloseTo(tokens / summary.wall_s, 3);
  const times = steps.map(({ at_ms }) => at_ms);
  expect(times).toEqual([...times].sort((a, b) => a - b));
  const [board, ...more] = readdirSync(join(run.directory, "tensorboard"));
  expect(more).toEqual([]);
  const { scalars } = readEventFile(readFileSync(join(run.directory, "tensorboard", board ?? "")));
  const rewards = scalars.filter(({ tag }) => tag === "reward/reward");
  expect(rewards.map(({ step, value }) => [step, value])).toEqual(
    steps.map(({ step, reward }) => [step, Math.fround(reward)]),
  );
  // One that is lost with whoever was killed is missing; none is there twice, or of a step that does not stand.
  const samples = read("samples.jsonl").map(({ group, sample }) => `${group}/${sample}`);
  expect(new Set(samples).size).toBe(samples.length);
  expect(samples).toEqual(expect.arrayContaining(["1.0/0", "24.0/1"]));
  for (const { step, lineage } of read("samples.jsonl")) expect(steps[step - 1].lineage).toBe(lineage);
}

test("Ctrl-C ends a run within five seconds with everything it started, and the command that is printed for it goes on with it", async () => {
  const first = await runs.start("interrupted", ...args, ...steady);
  await first.waitForEvent("step.committed", ({ step }) => step >= 5);
  const pressedMs = performance.now();
  // A terminal sends the signal to every process of the group.
  process.kill(-first.process.pid, "SIGINT");
  const interrupted = await first.ended(130);
  expect(performance.now() - pressedMs).toBeLessThan(5_000);
  expect(processesNaming(runs.path)).toEqual([]);
  expect(interrupted.steps).toBeGreaterThanOrEqual(5);
  expect(interrupted.steps).toBeLessThan(24);
  expect(interrupted).toMatchObject({ lost: 0, doubled: 0 });
  expect(failuresOf(interrupted)).toEqual([]);
  expect(first.events("checkpoint.kept").at(-1)).toMatchObject({ step: interrupted.steps });
  expect(existsSync(join(first.directory, "report.html"))).toBe(true);
  expect(await stepForAnotherProgram(first)).toBe(interrupted.steps + 1);

  const status = await runs.muster("status", "--job", "interrupted");
  expect((await status.exited).code).toBe(0);
  const [, printed] = /interrupted at step \d+; go on with: (.*)$/m.exec(status.lines.join("\n")) ?? [];
  const said = execFileSync("sh", ["-c", `${printed} 2>&1`], { encoding: "utf8" });
  const summary = summaryOf(first);
  // What was said before is no news, and going on is nothing to be alarmed about.
  expect(said).not.toMatch(/^! .* died|rollback/m);
  expect(first.events("alarm.raised").map(({ alarm }) => alarm)).not.toContain("rollback");
  expect(failuresOf(summary)).toEqual([]);
  expectTimesOfJob(first, summary);
  expect(summary.steps).toBe(24);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(first));
  expectBalanced(summary);

  const commits = first.events("step.committed").map(({ step }) => step);
  expect(commits).toEqual(Array.from({ length: 24 }, (_, i) => i + 1));
});

test("a job that is over is not started again, and its events can still be watched", async () => {
  const watch = await runs.muster("watch", "--job", "interrupted", "--from-start");
  expect((await watch.exited).code).toBe(0);
  expect(watch.lines.join("\n")).toMatch(
    /term 1 acts[\s\S]*step 24 [\s\S]*done at step 24[\s\S]*is over: done at step 24/,
  );
  const again = await runs.start("interrupted", ...args, ...steady);
  const summary = await again.ended();
  expect(summary.steps).toBe(24);
  expect(again.events("job.started")).toHaveLength(2);
});

test("a job that is over goes on from its last checkpoint with more steps, and ends as one that had them from the beginning", async () => {
  const directory = join(runs.path, "interrupted");
  const fewer = await runs.muster("run", "--resume", "interrupted", "--steps", "20");
  expect((await fewer.exited).code).toBe(2);
  expect(fewer.lines.join("\n")).toContain("job.steps = 20: step 24 is committed, and the job is over; use 25 or more");
  const more = await runs.muster("run", "--resume", "interrupted", "--steps", "27", "--quiet");
  expect((await more.exited).code).toBe(0);
  const summary = summaryOf({ directory });
  expect(summary.steps).toBe(27);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining({ directory }, 27));
  expectBalanced(summary);
  const said = readFileSync(join(directory, "events.jsonl"), "utf8");
  expect([...said.matchAll(/"kind":"step.committed".*?"step":(\d+)/g)].map(([, step]) => step)).toEqual([
    "25",
    "26",
    "27",
  ]);
  expect(said).toMatch(/"alarm":"prolonged","detail":"the job was over and goes on from checkpoint step-00000024/);
});

test("kill -9 of the run leaves no process behind, and the same command goes on with it", async () => {
  const first = await runs.start("killed", ...args);
  await first.waitForEvent("step.committed", ({ step }) => step >= 6);
  first.process.signal("SIGKILL");
  expect(await first.process.exited).toMatchObject({ signal: "SIGKILL" });
  await nothingLeft(runs.path);

  const second = await runs.start("killed", ...args);
  const summary = await second.ended();
  expect(summary.steps).toBe(24);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(second));
  expectBalanced(summary);
});

test("a run that was killed, goes on with another learning rate, another batch and more steps, and loses its trainer, ends as a quiet one in which they were ordered at the same step", async () => {
  const small = ["--steps", "10", "--policy", "1", "--set", "init_replicas.policy=1"];
  const first = await runs.start("slower", ...small);
  await first.waitForEvent("step.committed", ({ step }) => step >= 3);
  first.process.signal("SIGKILL");
  await first.process.exited;
  await nothingLeft(runs.path);
  const refused = await runs.muster("run", "--resume", "slower", "--set", "job.seed=2");
  expect((await refused.exited).code).toBe(2);
  expect(refused.lines.join("\n")).toMatch(
    /job.seed = 2 can not change in this run, which has job.seed = 1; what can: optimizer.lr/,
  );
  for (const [wrong, reason] of [
    ["job.steps=2", /job.steps = 2: step \d+ is committed/],
    ["batch.groups_per_step=1", /batch.minibatches = 2 with batch.groups_per_step = 1 from step \d+ on/],
  ] as const) {
    const started = await runs.muster("run", "--resume", "slower", "--set", wrong);
    expect((await started.exited).code).toBe(2);
    expect(started.lines.join("\n")).toMatch(reason);
  }
  const sets = ["optimizer.lr=0.01", "batch.groups_per_step=10", "job.steps=12"].flatMap((set) => ["--set", set]);
  const second = await runs.muster("run", "--resume", "slower", "--quiet", ...sets);
  const settings = { lr: 0.01, groupsPerStep: 10, steps: 12 };
  const changed = await waitFor(() => first.events("job.changed")[0], { what: "the change", timeoutMs: 30_000 });
  const { fromStep } = changed;
  expect(fromStep).toBeGreaterThan(3);
  const isTrained = () => first.events("step.committed").some(({ step }) => step >= fromStep);
  await waitFor(isTrained, { what: "a step of the new size", timeoutMs: 60_000 });
  process.kill(first.pidOf("policy-0"), "SIGKILL");
  expect((await second.exited).code).toBe(0);
  const killed = summaryOf(first);
  expect(killed.steps).toBe(12);
  expectBalanced(killed);

  // It ends before it has sampled anything, so that the change is ordered before the first step.
  const quiet = await runs.start("quiet", ...small);
  await quiet.waitForEvent("job.started");
  quiet.process.signal("SIGKILL");
  await nothingLeft(runs.path);
  const ordered = [...sets, "--from-step", `${fromStep}`];
  const again = await runs.muster("run", "--resume", "quiet", "--quiet", ...ordered);
  expect((await again.exited).code).toBe(0);
  expect(quiet.events("job.changed")).toMatchObject([{ fromStep, settings }]);
  expect(summaryOf(quiet).weights_hash).toBe(killed.weights_hash);
  const rates = ratesOf(first);
  expect(rates).toEqual(ratesOf(quiet));
  // Steps that were repeated from before the change had the rate of before.
  expect((rates[fromStep - 1] ?? 0) / (rates[fromStep - 2] ?? 1)).toBeGreaterThan(4);
  expect(await stepForAnotherProgram(first)).toBe(13);
});

test("a job whose broker has lost its store is refused, until the operator says that it is lost: then it goes on from its newest checkpoint", async () => {
  const first = await runs.start("lost", ...args);
  await first.waitForEvent("checkpoint.kept", ({ step }) => step >= 4);
  process.kill(-first.process.pid, "SIGINT");
  const { steps } = await first.ended(130);
  rmSync(join(first.directory, "nats"), { recursive: true });
  const again = await runs.start("lost", ...args);
  await again.ended(1);
  expect(readFileSync(join(again.directory, "logs", "controller.err"), "utf8")).toMatch(
    /the journal of job lost is empty, but .* has the checkpoint step-.*with --store-lost, or .*weights.source=checkpoint:/,
  );
  expect(again.events("step.committed")).toHaveLength(steps);

  const third = await runs.start("lost", ...args, "--store-lost");
  const summary = await third.ended();
  expect(summary.steps).toBe(24);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(third));
  expectBalanced(summary);
  expect(third.events("step.committed")[0]).toMatchObject({ step: steps + 1, lineage: 1 });
  expect(third.events("alarm.raised").map(({ alarm }) => alarm)).toContain("store-lost");
  expect(third.events("job.started")[0]).toMatchObject({ term: 2 });
  const before = readFileSync(join(third.directory, "events.1.jsonl"), "utf8");
  expect(before.match(/"kind":"step.committed"/g)).toHaveLength(steps);
});

test("two runs of one job do not run at once", async () => {
  const first = await runs.start("twice", ...args);
  await first.waitForEvent("job.started");
  const second = await runs.start("twice", ...args);
  expect((await second.process.exited).code).toBe(2);
  expect(second.process.lines.join("\n")).toContain(`is run by process ${first.process.pid} already`);
  process.kill(-first.process.pid, "SIGINT");
  await first.ended(130);
});
