import { describe, expect, it } from "vitest";
import { partitionWays } from "../../src/chaos/partition.ts";
import {
  type ChaosKind,
  chaosKinds,
  chaosWishOf,
  drawSchedule,
  drawSeries,
  type ScheduleOptions,
} from "../../src/chaos/schedule.ts";

const wishes = (...kinds: readonly ChaosKind[]) => kinds.map((kind) => ({ kind, role: null }));

const options: ScheduleOptions = {
  seed: 7,
  minutes: 10,
  kinds: wishes(...chaosKinds),
  replicas: { policy: 3, rollout: 4, checkpoint: 1 },
  deadAfterMs: 10_000,
};

describe("the plan of a chaos run", () => {
  it("is a function of the seed", () => {
    expect(drawSchedule(options)).toEqual(drawSchedule(options));
    expect(drawSchedule(options)).not.toEqual(drawSchedule({ ...options, seed: 8 }));
  });

  it("has every kind, in order of time, within the minutes", () => {
    const plan = drawSchedule(options);
    expect(new Set(plan.map(({ kind }) => kind))).toEqual(new Set(chaosKinds));
    expect(plan.every(({ atMs }, i) => atMs < 600_000 && atMs >= (plan[i - 1]?.atMs ?? 0))).toBe(true);
    expect(plan.map(({ n }) => n)).toEqual(plan.map((_, i) => i + 1));
  });

  it("kills often enough: a hundred and thirty times and more in ten minutes", () => {
    const kills = drawSchedule(options).filter(({ kind }) => kind === "kill");
    expect(kills.length).toBeGreaterThan(130);
    expect(new Set(kills.map(({ target }) => target.role))).toEqual(new Set(["policy", "rollout", "checkpoint"]));
  });

  it("draws silences shorter and longer than the dead time-out", () => {
    const silences = drawSchedule(options).flatMap(({ kind, lastsMs }) => (kind === "freeze" ? lastsMs : []));
    expect(silences.some((ms) => ms < 7_500)).toBe(true);
    expect(silences.some((ms) => ms > 11_500)).toBe(true);
    expect(silences.every((ms) => ms < 7_500 || ms > 11_500)).toBe(true);
  });

  it("keeps the faults of one kind when others are left out", () => {
    const times = (kinds: ScheduleOptions["kinds"]) =>
      drawSchedule({ ...options, kinds })
        .filter(({ kind }) => kind === "broker")
        .map(({ atMs }) => atMs);
    expect(times(wishes("broker"))).toEqual(times(wishes(...chaosKinds)));
  });

  it("hits no role that has no replicas", () => {
    const plan = drawSchedule({
      ...options,
      kinds: wishes("kill"),
      replicas: { policy: 1, rollout: 0, checkpoint: 0 },
    });
    expect(new Set(plan.map(({ target }) => target.role))).toEqual(new Set(["policy"]));
  });

  it("hits one role where one is wished for, and moves nothing else by that", () => {
    const any = drawSchedule({ ...options, kinds: wishes("kill") });
    const one = drawSchedule({ ...options, kinds: [{ kind: "kill", role: "rollout" }] });
    expect(new Set(one.map(({ target }) => target.role))).toEqual(new Set(["rollout"]));
    expect(one.map(({ atMs }) => atMs)).toEqual(any.map(({ atMs }) => atMs));
  });

  it("cuts the second host off in every way", () => {
    const plan = drawSchedule({ ...options, minutes: 60, kinds: wishes("partition") });
    expect(new Set(plan.map(({ way }) => way))).toEqual(new Set(partitionWays));
    expect(plan.every(({ target }) => target.role === "host")).toBe(true);
  });
});

describe("a series", () => {
  it("goes through the kinds in rounds, and through the replicas of a role", () => {
    const kinds = [...wishes("broker"), { kind: "freeze", role: "rollout" } as const];
    const plan = drawSeries({ ...options, kinds, count: 30 });
    expect(plan.map(({ kind }) => kind)).toEqual(Array(30).fill(["broker", "freeze"]).flat());
    expect(plan.filter(({ kind }) => kind === "freeze").map(({ target }) => target)).toEqual(
      Array.from({ length: 30 }, (_, index) => ({ role: "rollout", index })),
    );
    expect(plan.map(({ n }) => n)).toEqual(plan.map((_, i) => i + 1));
  });

  it("has silences beyond every time-out", () => {
    const kinds = [{ kind: "freeze", role: "rollout" } as const, { kind: "cut", role: "policy" } as const];
    const lasting = drawSeries({ ...options, kinds, count: 1 }).map(({ lastsMs }) => lastsMs);
    expect(lasting).toEqual([18_000, 14_000]);
  });

  it("goes through all ways to cut a host off", () => {
    const plan = drawSeries({ ...options, kinds: wishes("partition"), count: partitionWays.length });
    expect(new Set(plan.map(({ way }) => way))).toEqual(new Set(partitionWays));
  });

  it("goes through all ways in three parts, whose seeds follow on each other", () => {
    const part = (turn: number) => {
      const plan = drawSeries({ ...options, kinds: wishes("partition"), count: 3, seed: turn * 3 });
      return plan.map(({ way }) => way);
    };
    const parts = [641, 642, 643].flatMap(part);
    expect(new Set(parts)).toEqual(new Set(partitionWays));
  });
});

describe("the name of a fault", () => {
  it("is a kind, or a kind and a role", () => {
    expect(chaosWishOf("kill")).toEqual({ kind: "kill", role: null });
    expect(chaosWishOf(" kill.rollout ")).toEqual({ kind: "kill", role: "rollout" });
    for (const text of ["bite", "kill.node", "kill.rollout.1", "broker.policy", ""])
      expect(chaosWishOf(text)).toBeNull();
  });
});
