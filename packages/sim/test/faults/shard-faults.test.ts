/** What jobs whose checkpoints are written in shards are like, and what goes wrong in them. */
import { describe, expect, it } from "vitest";
import { rankPoints } from "../../src/faults/points.ts";
import { drawScenario } from "../../src/seed/draw-scenario.ts";

const drawn = Array.from({ length: 60 }, (_, i) => drawScenario(i + 1, "storage"));
const shardsOf = ({ config }: (typeof drawn)[number]): number => config.checkpoint.shards ?? 1;

describe("profile storage", () => {
  it("has checkpoints whole, in two shards and in three, with an actor for each shard and as the configuration allows", () => {
    for (const shards of [1, 2, 3])
      expect(drawn.filter((one) => shardsOf(one) === shards).length).toBeGreaterThanOrEqual(12);
    for (const { config } of drawn.filter((one) => shardsOf(one) > 1)) {
      expect(config.replicas.checkpoint).toBeGreaterThanOrEqual(config.checkpoint.shards ?? 1);
      expect(config.checkpoint.quorum ?? 1).toBe(1);
    }
  });

  it("strikes those who write shards, between any two calls to the disk and around what is said of them, and nobody else", () => {
    const pointsOf = (list: typeof drawn): readonly string[] =>
      list
        .flatMap(({ faults }) => faults.flatMap((fault) => (fault.kind === "failpoint" ? [fault.point] : [])))
        .filter((point) => !rankPoints.includes(point));
    const points = new Set(pointsOf(drawn.filter((one) => shardsOf(one) > 1)));
    expect(pointsOf(drawn.filter((one) => shardsOf(one) === 1))).toEqual([]);
    for (const call of ["write", "sync", "rename", "syncdir", "mkdir", "list"])
      expect(points).toContain(`checkpoint.fs-${call}`);
    expect([...points].some((point) => point.endsWith("shards.saved"))).toBe(true);
  });

  it("leaves one writer in some jobs, for good", () => {
    const losses = drawn.map(({ config, faults }) => ({
      writers: config.replicas.checkpoint,
      gone: faults.flatMap((fault) => (fault.kind === "gone" ? [fault.node] : [])),
    }));
    const lone = losses.filter(({ gone }) => gone.length > 0);
    expect(lone.length).toBeGreaterThanOrEqual(8);
    expect(lone.flatMap(({ gone }) => gone)).not.toContain("checkpoint-1");
    expect(lone.every(({ writers, gone }) => new Set(gone).size === writers - 1)).toBe(true);
  });
});
