import { describe, expect, it } from "vitest";
import { chaosKinds, drawSchedule, type ScheduleOptions } from "../../src/chaos/schedule.ts";

const options: ScheduleOptions = {
  seed: 7,
  minutes: 10,
  kinds: chaosKinds,
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
    expect(times(["broker"])).toEqual(times(chaosKinds));
  });

  it("hits no role that has no replicas", () => {
    const plan = drawSchedule({ ...options, kinds: ["kill"], replicas: { policy: 1, rollout: 0, checkpoint: 0 } });
    expect(new Set(plan.map(({ target }) => target.role))).toEqual(new Set(["policy"]));
  });
});
