/** Samples that end whoever trains on them: their groups are found and given up, beside other deaths and without trainers that outlive a step, too. */
import { describe, expect, it } from "vitest";
import type { Fault } from "../../src/faults/fault.ts";
import { drawScenario } from "../../src/seed/draw-scenario.ts";
import { runAndCompare } from "../../src/seed/run-seed.ts";

describe("a job some of whose samples end trainers", () => {
  it.each([
    ["with one trainer", 1],
    ["with four", 4],
  ])("%s trains on what its quiet run trains on, whoever else dies", { timeout: 60_000 }, async (_, policy) => {
    const drawn = drawScenario(1, "quiet");
    const { config, work } = drawn;
    const faults: readonly Fault[] = Array.from({ length: 6 }, (_, i) => ({
      ...{ kind: "kill", node: `policy-${1 + (i % policy)}`, isSeen: i % 2 === 0 },
      atMs: 15_000 + 20_000 * i,
    }));
    const scenario = {
      ...drawn,
      config: {
        ...config,
        ...{ mode: "sync" as const, stalenessMax: 0 },
        replicas: { ...config.replicas, policy },
        initReplicas: { ...config.initReplicas, policy: 1 },
      },
      work: { ...work, trainerKillerRate: 0.02, overflowRate: 0, killerRate: 0, hangerRate: 0 },
      faults,
      safetyMs: 130_000,
      limitMs: drawn.limitMs + 1_200_000,
    };
    const result = await runAndCompare(scenario);
    expect(result.violations).toEqual([]);
    expect(result.end?.outcome).toBe("done");
    expect(result.points.get("controller.before-publish.groups.quarantined")).toBeGreaterThan(0);
  });
});
