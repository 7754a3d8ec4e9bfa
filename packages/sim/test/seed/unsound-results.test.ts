/** Results that nobody can read, and receipts that can not be true: their groups are sampled again, and nothing else comes of it. */
import { describe, expect, it } from "vitest";
import { drawScenario } from "../../src/seed/draw-scenario.ts";
import { runAndCompare } from "../../src/seed/run-seed.ts";

describe("a job in sync mode", () => {
  it.each([
    ["whose stored groups turn into noise", "spoil", 4],
    ["whose receipts can not be true", "misreport", 6],
  ] as const)("%s ends with the weights of its quiet run", { timeout: 60_000 }, async (_, kind, count) => {
    const drawn = drawScenario(1, "quiet");
    const { config } = drawn;
    const faults = Array.from({ length: count }, (_, i) => ({ kind, atMs: 8_000 + 4_000 * i, count: 1 }));
    const limits = { ...config.limits, stepAttemptsMax: 5 };
    const scenario = {
      ...drawn,
      config: { ...config, mode: "sync" as const, stalenessMax: 0, limits },
      faults,
      safetyMs: 60_000,
      limitMs: drawn.limitMs + 120_000,
    };
    const result = await runAndCompare(scenario);
    expect(result.violations).toEqual([]);
    expect(result.faults.get(kind)).toBe(count);
    // Each is noticed and said: what is stored as noise by the trainers that read it.
    expect(result.points.get("controller.before-publish.alarm.raised")).toBeGreaterThanOrEqual(count);
    if (kind === "spoil") expect(result.points.get("controller.before-publish.step.retried")).toBeGreaterThanOrEqual(1);
    expect(result.end).toMatchObject({ outcome: "done", lineage: 0 });
  });
});
