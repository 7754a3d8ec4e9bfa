import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { loadCheckpoint } from "@muster/checkpoint";
import { digestOf } from "@muster/collectives/internal";
import { type JobRun, startJobRun } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectBalanced, failuresOf, jobFile, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

/** It takes a minute on two idle cores; on busy ones it may take longer. */
const wholeJobMs = 420_000;

describe("the example job as it ships", () => {
  let run: JobRun;
  let summary: Awaited<ReturnType<JobRun["ended"]>>;

  test("learns to write dates", { timeout: wholeJobMs }, async () => {
    run = await startJobRun({ runs: runs.path, job: "dates", file: jobFile });
    summary = await run.ended();
    expect(summary.reward_last).toBeGreaterThanOrEqual(0.9);
    expect(summary.eval_last).toBeGreaterThanOrEqual(0.85);
    expect(summary).toMatchObject({ steps: 250, weight_version: 250 });
    expect(failuresOf(summary)).toEqual([]);
    expect(summary.ledger.trained).toBe(250 * 128 * 8);
    expectBalanced(summary);
  });

  test("leaves its configuration, events, metrics, report and summary behind", () => {
    const read = (name: string): string => readFileSync(join(run.directory, name), "utf8");
    expect(read("config.txt")).toContain("groups_per_step = 128");
    expect(read("metrics.jsonl").trim().split("\n")).toHaveLength(250);
    expect(read("report.html")).toContain("<!doctype html>");
    expect(run.process.lines.at(-1)).toContain(summary.weights_hash);
    expect(JSON.parse(run.process.lines.at(-1) ?? "")).toEqual(JSON.parse(read("summary.json")));
    expect(existsSync(join(run.directory, "run.pid"))).toBe(false);
  });

  test("leaves a checkpoint that holds the final weights", async () => {
    const { path } = run.events("checkpoint.kept").at(-1) ?? { path: "" };
    const { sections, info } = await loadCheckpoint(path);
    expect(info).toMatchObject({ step: 250, version: 250 });
    expect(digestOf(sections.find(({ name }) => name === "weights")?.bytes ?? new Uint8Array())).toBe(
      summary.weights_hash,
    );
  });
});

test.each([2, 3])("a shorter job with seed %i is on its way", async (seed) => {
  const run = await runs.start(
    `seed-${seed}`,
    "--seed",
    String(seed),
    "--steps",
    "60",
    "--set",
    "batch.groups_per_step=32",
  );
  const summary = await run.ended();
  expect(summary.reward_last! - summary.reward_first!).toBeGreaterThan(0.15);
  expectBalanced(summary);
});
