import { describe, expect, it } from "vitest";
import type { VersionOrder } from "../src/controller/order.ts";
import { answered, planOverdue } from "../src/controller/orders.ts";
import { type ControllerState, type Order, withMember } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, linesOf, sectionsOf, working } from "./states.ts";

const applied = { step: 3, attempt: 1, epoch: 2, lineage: 0, version: 3, sections: sectionsOf(3) };
const order = (kind: VersionOrder["kind"], version = 3, dueAtMs = 1_000): Order => ({
  kind,
  lineage: 0,
  version,
  dueAtMs,
});
const stop: Order = { kind: "replica.stop", dueAtMs: 1_000 };

const owing = (own: Order, unanswered = 0): ControllerState =>
  withMember(working({ patch: { applied } }), "p0", { order: own, unanswered });

describe("an order without an answer", () => {
  it("is left alone until it is due", () => {
    expect(planOverdue(owing(order("step.apply", 3, 1_001)))).toBeNull();
    expect(planOverdue(working())).toBeNull();
  });

  it("to apply the last commit is sent again, the same", () => {
    const change = planOverdue(owing(order("step.apply")));
    expect(bodiesOf(change?.effects ?? [], "step.apply")).toEqual([applied]);
    expect(change?.state.members.p0).toMatchObject({ order: order("step.apply", 3, 2_000), unanswered: 1 });
  });

  it("that a former controller gave is due when it was due before, and counts as unanswered only after that", () => {
    const owed = (dueAtMs: number) => {
      const state = withMember(owing(order("weights.pull"), 1), "p0", {
        owed: order("weights.pull", 3, dueAtMs) as never,
      });
      return planOverdue(state)?.state.members.p0;
    };
    expect(owed(1_001)).toMatchObject({ unanswered: 1, owed: { dueAtMs: 1_001 }, order: null });
    expect(owed(1_000)).toMatchObject({ unanswered: 2, owed: null, order: null });
    const leaving = withMember(owing(stop), "p0", { owed: order("weights.pull", 3, 1_700) as never });
    expect(planOverdue(leaving)?.state.members.p0).toMatchObject({ unanswered: 0, order: { dueAtMs: 1_700 } });
    expect(answered).toEqual({ order: null, unanswered: 0 });
  });

  it("to leave is sent again", () => {
    const change = planOverdue(owing(stop));
    expect(linesOf(change?.effects ?? [])).toEqual(["p0 replica.stop"]);
    expect(change?.state.members.p0?.order?.dueAtMs).toBe(2_000);
  });

  it.each(["weights.pull", "weights.initialize", "checkpoint.save"] as const)(
    "of kind %s is forgotten, so that the planners decide anew",
    (kind) => {
      const change = planOverdue(owing(order(kind)));
      expect(change?.effects).toEqual([]);
      expect(change?.state.members.p0).toMatchObject({ order: null, retryAtMs: 1_000, unanswered: 1 });
    },
  );

  it("to apply a commit that was overtaken is forgotten", () => {
    const change = planOverdue(owing(order("step.apply", 2)));
    expect(change?.effects).toEqual([]);
    expect(change?.state.members.p0?.order).toBeNull();
  });

  it.each([order("step.apply"), order("weights.pull"), stop])(
    "of kind $kind for the third time in a row evicts its member",
    (last) => {
      const change = planOverdue(owing(last, 2));
      expect(linesOf(change?.effects ?? [])).toEqual(["! member.died", "p0 replica.fenced"]);
      const evidence = expect.stringContaining(`${last.kind} unanswered 3 times`);
      const died = { id: "p0", by: "deadline", silentMs: 0, evidence };
      expect(bodiesOf(change?.effects ?? [], "member.died")).toMatchObject([died]);
      expect(change?.state.members.p0).toBeUndefined();
    },
  );
});

describe("a lease that expires", () => {
  it("goes back to the queue together with overdue orders", () => {
    const item = { purpose: "train" as const, step: 4, index: 0, attempt: 0 };
    const groups = { 4: { ...groupsOf(4, 0), queue: [] } };
    const leases = {
      "1-1": { holder: "r0", items: [item], dueAtMs: 1_000 },
      "1-2": { holder: "r0", items: [item], dueAtMs: 1_001 },
    };
    const state = { ...owing(order("weights.pull")), groups, leases };
    const change = planOverdue(state);
    expect(change?.state.groups[4]?.queue).toEqual([{ index: 0, attempt: 1, last: "r0" }]);
    expect(Object.keys(change?.state.leases ?? {})).toEqual(["1-2"]);
    expect(linesOf(change?.effects ?? [])).toEqual(["! groups.released"]);
  });
});
