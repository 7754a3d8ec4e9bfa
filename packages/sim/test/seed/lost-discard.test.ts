/** What a controller has decided and could not say: the next one's orders must do without it. */
import { describe, expect, it } from "vitest";
import { drawScenario } from "../../src/seed/draw-scenario.ts";
import { runScenario } from "../../src/seed/run-scenario.ts";

describe("a controller that dies after it decided to skip a step, and before anybody heard of it", () => {
  it.each([1, 3])("costs no rollback and nobody its place: member %i", { timeout: 60_000 }, async (nth) => {
    const drawn = drawScenario(7, "quiet");
    const { config } = drawn;
    const scenario = {
      ...drawn,
      config: {
        ...config,
        replicas: { ...config.replicas, policy: 3 },
        initReplicas: { ...config.initReplicas, policy: 3 },
        failure: { ...config.failure, nonFinite: { ...config.failure.nonFinite, attempts: 64 } },
      },
      work: { ...drawn.work, overflowRate: 0.05 },
      faults: [
        { kind: "failpoint", point: "controller.before-publish.step.discard", nth, action: { type: "crash" } },
      ] as const,
      safetyMs: drawn.limitMs / 2,
    };
    const result = await runScenario(scenario);
    expect(result.violations).toEqual([]);
    expect(result.strikes).toMatchObject([{ count: 1 }]);
    expect(result.end).toMatchObject({ outcome: "done", lineage: 0 });
    expect(result.points.get("controller.before-publish.member.died") ?? 0).toBe(0);
  });
});
