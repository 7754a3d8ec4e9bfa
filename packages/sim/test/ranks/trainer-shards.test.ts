/** Jobs whose trainers are several processes, each of which has a shard of the training state. */
import { describe, expect, it } from "vitest";
import type { Scenario } from "../../src/cluster/scenario.ts";
import type { Fault } from "../../src/faults/fault.ts";
import { rankPoints } from "../../src/faults/points.ts";
import { drawScenario, type Profile, withTrainersOf } from "../../src/seed/draw-scenario.ts";
import { runScenario } from "../../src/seed/run-scenario.ts";
import { runAndCompare } from "../../src/seed/run-seed.ts";

const sizeOf = ({ config }: Scenario): number => config.processes?.policy ?? 1;
const drawn = (profile: Profile, seeds: number): readonly Scenario[] =>
  Array.from({ length: seeds }, (_, i) => drawScenario(i + 1, profile));

/** Two trainers of two processes, in a job whose end is a function of its seed. */
function job(faults: readonly Fault[], steps = 4): Scenario {
  const scenario = drawScenario(2, "quiet");
  const { config } = scenario;
  const replicas = { ...config.replicas, policy: 2 };
  const batch = { ...config.batch, microShards: 2 };
  const sync = { ...config, mode: "sync" as const, stalenessMax: 0, replicas, batch, steps };
  return { ...scenario, config: withTrainersOf(sync, 2), faults, safetyMs: faults.length > 0 ? 60_000 : 0 };
}

const rank = { node: "policy-1.1" };

describe("a trainer of several processes", () => {
  it.each<[string, readonly Fault[]]>([
    ["nothing goes wrong", []],
    ["one of them is killed again and again", [15_000, 25_000, 35_000].map((atMs) => kill(atMs))],
    ["one stands still", [{ kind: "pause", atMs: 14_000, forMs: 20_000, ...rank }]],
    ["one computes wrong bits", [{ kind: "bit-flip", atMs: 12_000, forMs: 15_000, ...rank }]],
    ["one never answers what it is asked", [10, 20, 30].map((nth) => lost("policy.rank-answer", nth))],
    [
      "one can not reach its like",
      [{ kind: "data-cut", atMs: 5_000, forMs: 30_000, between: [rank.node, "policy-2.1"] }],
    ],
  ])("ends with the weights of its quiet run when %s", { timeout: 60_000 }, async (_, faults) => {
    const { violations, end, strikes } = await runAndCompare(job(faults));
    expect(violations).toEqual([]);
    expect(end?.outcome).toBe("done");
    expect(end?.sections.every(({ digest }) => digest.startsWith("shards:"))).toBe(true);
    const pointed = faults.filter(({ kind }) => kind === "failpoint");
    expect(strikes.reduce((sum, { count }) => sum + count, 0)).toBe(pointed.length);
  });
});

describe("a process of a trainer that hears nothing any more", () => {
  // Before it takes a version, and while it has none: others go on without it, and nobody else would notice.
  it.each([6_500, 18_500])(
    "ends with its replica, which begins again, from %i ms on",
    { timeout: 60_000 },
    async (atMs) => {
      const { violations, faults, end } = await runScenario(job([{ kind: "stick", atMs, ...rank }], 30));
      expect(violations).toEqual([]);
      expect(faults.get("stick")).toBe(1);
      expect(end?.outcome).toBe("done");
    },
  );
});

describe("the profiles", () => {
  it.each<[Profile, number, number]>([
    ["swarm", 1_200, 30],
    ["storage", 60, 8],
  ])(
    "%s has trainers of two processes and of three, and strikes ranks in most of these jobs",
    (profile, seeds, least) => {
      const sharded = drawn(profile, seeds).filter((one) => sizeOf(one) > 1);
      expect(sharded.length).toBeGreaterThanOrEqual(least);
      expect(new Set(sharded.map(sizeOf))).toEqual(new Set([2, 3]));
      expect(sharded.filter(({ config }) => config.checkpoint.memoryEvery > 0)).toEqual([]);
      const struck = sharded.filter(({ faults }) => faults.some(isOfRank));
      expect(struck.length).toBeGreaterThan(sharded.length / 2);
    },
  );

  it("strikes ranks only where there are some", () => {
    const whole = drawn("swarm", 100).filter((one) => sizeOf(one) === 1);
    expect(whole.flatMap(({ faults }) => faults.filter(isOfRank))).toEqual([]);
  });
});

function kill(atMs: number): Fault {
  return { kind: "kill", atMs, isSeen: true, ...rank };
}

function lost(point: string, nth: number): Fault {
  return { kind: "failpoint", point, nth, action: { type: "drop" } };
}

function isOfRank(fault: Fault): boolean {
  if (fault.kind === "failpoint") return rankPoints.includes(fault.point);
  return "node" in fault && /^policy-\d+\.\d/.test(fault.node);
}
