/** A sampler that was short of memory draws half as much in one go, also in its later lives. */
import { describe, expect, it } from "vitest";
import { applyReturned } from "../src/controller/groups/apply-groups.ts";
import { dispatchGroups } from "../src/controller/groups/dispatch-groups.ts";
import { atOnceOf, noteShortage } from "../src/controller/groups/shortages.ts";
import { applyExited } from "../src/controller/members/apply-membership.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { plan as jobPlan } from "./plans.ts";
import { bodiesOf, memberOf, planWith, reportFrom, working } from "./states.ts";

const plan = planWith({ limits: { ...jobPlan.limits, chunkGroups: 8, leaseGroupsMax: 16 } });
const start = (): ControllerState => working({ plan, members: ["p0", "r0", "r1"] });
const exited = (state: ControllerState, code: number) => {
  const { host, pid } = state.members.r0 ?? memberOf("r0", 1);
  const body = { id: "r0", host, pid, code, signal: null, ...(code === 137 ? { oom: true } : {}) };
  return applyExited(state, reportFrom(state, "p0", { kind: "process.exited", body }));
};

describe("a sampler that ends because memory is short", () => {
  it("gets half as much from then on, and the operator hears of it", () => {
    const { state, effects } = exited(start(), 137);
    expect([atOnceOf(state, "r0"), atOnceOf(state, "r1")]).toEqual([4, 8]);
    expect(bodiesOf(effects, "alarm.raised")).toMatchObject([{ alarm: "memory", detail: /at most 4 groups/ }]);
  });

  it("is known by the exit code of a process that was killed for its memory, also where its supervisor says no more", () => {
    const { host, pid } = memberOf("r0", 2);
    const body = { id: "r0", host, pid, code: 137, signal: null };
    const { state, effects } = applyExited(start(), reportFrom(start(), "p0", { kind: "process.exited", body }));
    expect(atOnceOf(state, "r0")).toBe(4);
    expect(bodiesOf(effects, "member.died")).toMatchObject([{ evidence: /short of memory/ }]);
  });

  it("of anything else gets as much as before", () => {
    const { state, effects } = exited(start(), 1);
    expect(atOnceOf(state, "r0")).toBe(8);
    expect(bodiesOf(effects, "alarm.raised")).toEqual([]);
  });

  it("again and again comes down to one group, and no further", () => {
    const shortages = (state: ControllerState, times: number): ControllerState =>
      Array.from({ length: times }).reduce<ControllerState>((at) => noteShortage(at, memberOf("r0", 1)).state, state);
    expect([1, 2, 3, 4, 40].map((times) => atOnceOf(shortages(start(), times), "r0"))).toEqual([4, 2, 1, 1, 1]);
  });
});

it("an engine that says so itself counts, too", () => {
  const leases = {
    "1-1": { holder: "r0", items: [{ purpose: "train" as const, step: 4, index: 0, attempt: 0 }], dueAtMs: 9 },
  };
  const state = { ...start(), leases };
  const body = { leaseId: "1-1", items: [...leases["1-1"].items], reason: "no memory", failure: "oom" as const };
  const returned = applyReturned(state, reportFrom(state, "r0", { kind: "groups.returned", body }));
  expect(atOnceOf(returned.state, "r0")).toBe(4);
});

it("a lease is no larger than what its holder draws in one go", () => {
  const queue = Array.from({ length: 40 }, (_, index) => ({ index, attempt: 0 }));
  const waiting = { ...start(), groups: { 4: { queue, receipts: {}, quarantined: [] } } };
  const sizesOf = (state: ControllerState): Record<string, number> =>
    Object.fromEntries(
      Object.values(dispatchGroups(state)?.state.leases ?? {}).map(({ holder, items }) => [holder, items.length]),
    );
  const before = sizesOf(waiting);
  const after = sizesOf({ ...waiting, shortages: { r0: 1 } });
  expect(before.r0).toBeGreaterThan(4);
  expect(after.r0).toBe(4);
});

it("a trainer that is short of memory is told of by nobody here: only what samplers draw can be less", () => {
  const state = start();
  const noted = noteShortage(state, state.members.p0 ?? memberOf("p0", 1));
  expect(noted).toEqual({ state, effects: [] });
});
