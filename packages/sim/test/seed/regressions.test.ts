import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { points } from "../../src/faults/points.ts";
import { readScenario } from "../../src/seed/read-scenario.ts";
import { runAndCompare } from "../../src/seed/run-seed.ts";

const folder = new URL("../../regressions/", import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
const trackRecord = readFileSync(new URL("../../../../test/README.md", import.meta.url), "utf8");

/** Failpoints that the scenarios came to. */
const reached = new Set<string>();

/**
 * What only rare faults lead to, or jobs on several hosts: refusals, failures, work that is handed back, rollout replicas that serve, training state that
 * nobody has in memory any more.
 */
const rare =
  /(rollout\.store-open|refused|fenced|draining|returned|checkpoint\.failed|mesh\.failed|weights\.failed|step\.skipped|checkpoint-load|policy\.fs-\w+)$/;

describe("scenarios that once failed", () => {
  it.each(files)("%s holds every invariant now", { timeout: 120_000 }, async (name) => {
    const { scenario } = readScenario(readFileSync(new URL(name, folder), "utf8"));
    const { violations, points: counts } = await runAndCompare(scenario);
    for (const point of counts.keys()) reached.add(point);
    expect(violations).toEqual([]);
  });

  it("come between them to every failpoint that is not rare", () => {
    expect(points.filter((point) => !reached.has(point) && !rare.test(point))).toEqual([]);
  });

  it.each(files)("%s has a row in the track record", (name) => {
    expect(trackRecord.includes(`${name.replace(".json", "")}"`)).toBe(true);
  });
});

describe("reading a scenario", () => {
  it.each([
    ["not json", "{"],
    ["a list", "[]"],
    ["no scenario", '{"why": "x"}'],
    ["a seed that is no number", '{"why": "x", "scenario": {"seed": "1", "profile": "swarm"}}'],
    ["a job that is not valid", '{"why": "x", "scenario": {"seed": 1, "profile": "swarm", "config": {"steps": 0}}}'],
    ["an unknown profile", '{"why": "x", "scenario": {"seed": 1, "profile": "storm"}}'],
  ])("refuses %s", (_, text) => {
    expect(() => readScenario(text)).toThrow(/no scenario of the simulator/);
  });

  it("leaves out what a job does not have any more", () => {
    const { scenario } = readScenario(
      '{"why": "x", "scenario": {"seed": 1, "profile": "swarm", "config": {"limits": {"luckMin": 7, "chunkGroups": 2}}}}',
    );
    expect(scenario.config.limits).not.toHaveProperty("luckMin");
    expect(scenario.config.limits.chunkGroups).toBe(2);
  });

  it("fills in what a job did not have when the file was written", () => {
    const { scenario } = readScenario(
      '{"why": "x", "scenario": {"seed": 1, "profile": "swarm", "config": {"steps": 99}, "faults": []}}',
    );
    expect(scenario.config.steps).toBe(99);
    expect(scenario.faults).toEqual([]);
    expect(scenario.config.timing.tickMs).toBeGreaterThan(0);
  });
});
