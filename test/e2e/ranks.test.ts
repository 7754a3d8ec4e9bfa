import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { digestOfLocalTraining, expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 240_000, hookTimeout: 30_000 });

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

/** Loaded into every process of a job: ends the rank that is told to compute next, once, when the file `mark` is there. */
const loseRank = (mark: string): string => `
  import { unlinkSync } from "node:fs";
  import { Worker } from "node:worker_threads";
  const tell = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (order, transfers) {
    tell.call(this, order, transfers);
    if (order?.kind !== "decode") return;
    try {
      unlinkSync(${JSON.stringify(mark)});
    } catch {
      return;
    }
    void this.terminate();
  };`;

test("replicas of two ranks train the bits of one process, with a rank lost in the middle of a pass, which ends its replica alone", async () => {
  const [mark, module] = [join(runs.path, "lose-a-rank"), join(runs.path, "lose-rank.mjs")];
  writeFileSync(module, loseRank(mark));
  const before = process.env.NODE_OPTIONS;
  process.env.NODE_OPTIONS = `--import=${pathToFileURL(module).href}`;
  const ranked = ["--set", "rollout.ranks=2", "--steps", "10", "--policy", "2", "--rollout", "2"];
  const run = await runs.start("ranks", ...ranked);
  if (before === undefined) delete process.env.NODE_OPTIONS;
  else process.env.NODE_OPTIONS = before;

  await run.waitForEvent("step.committed", ({ step }) => step >= 2, 90_000);
  writeFileSync(mark, "");
  const { id } = await run.waitForEvent("member.died", ({ role }) => role === "rollout", 30_000);
  const status = await runs.muster("status", "--job", "ranks");
  await status.exited;
  expect(status.lines.join("\n")).toMatch(/^rollout-\d\s+rollout, 2 ranks/m);
  const summary = await run.ended();
  expect(run.events("member.died").map((death) => death.id)).toEqual([id]);
  expect(run.events("member.joined").filter((joined) => joined.id === id).length).toBeGreaterThanOrEqual(1);
  expect(summary.steps).toBe(10);
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
  expectBalanced(summary);
});
