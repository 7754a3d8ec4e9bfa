/** Levels of agreement: what a majority must have in common, and what becomes of those who have something else. */
import { describe, expect, it } from "vitest";
import { planOverdue } from "../src/controller/orders.ts";
import { type ControllerState, withMember, without } from "../src/controller/state.ts";
import { driftAlarms } from "../src/controller/step/agreement.ts";
import { planMesh } from "../src/controller/step/plan-mesh.ts";
import { planStepOutcome, planStepRun } from "../src/controller/step/plan-step.ts";
import { applyFailed, applyHeld } from "../src/controller/weights/apply-weights.ts";
import { planPulls } from "../src/controller/weights/plan-weights.ts";
import { bodiesOf, groupsOf, linesOf, planWith, reportFrom, sectionsOf, stepping, voteFor } from "./states.ts";

type Level = NonNullable<ControllerState["plan"]["agreement"]>;

const members = ["p0", "p1", "p2", "r0"];
/** Same weights, another state of the optimizer. */
const other = (of: string) => ({
  sections: [
    { name: "weights" as const, bytes: 8, digest: "w4a" },
    { name: "optimizer" as const, bytes: 8, digest: of },
  ],
});
const [a, b, c] = [voteFor(4), voteFor(4, "a", other("o4b")), voteFor(4, "c")];
const job = (level: Level | null, votes = { p0: a, p1: b, p2: c }): ControllerState =>
  stepping(votes, { plan: planWith(level ? { agreement: level } : {}), members });
const outcome = (state: ControllerState) => planStepOutcome(state);
const told = (state: ControllerState) => linesOf(outcome(state)?.effects ?? []);

it("a drift is worth an alarm beyond one per cent of the norm, not at it", () => {
  const said = (drift: number | null) => linesOf(driftAlarms(job("weights"), drift));
  expect([null, 0, 0.01, 0.010_001].map(said)).toEqual([[], [], [], ["! alarm.raised"]]);
});

describe("three trainers with three results", () => {
  it.each([null, "state" as const])("agree on nothing where their whole state counts (%s)", (level) => {
    expect(told(job(level))).toContain("! step.retried");
  });

  it("agree on the weights where two have the same, whatever their optimizer has; the third is wrong", () => {
    const state = job("weights");
    expect(told(state)).toEqual([
      ...["p0 step.apply", "p2 step.discard", "p1 step.discard"],
      ...["! alarm.raised", "! step.committed"],
    ]);
    const effects = outcome(state)?.effects ?? [];
    expect(bodiesOf(effects, "alarm.raised")[0]?.alarm).toBe("divergence");
    expect(bodiesOf(effects, "step.apply")[0]).toMatchObject({ sections: sectionsOf(4), keep: ["training"] });
    expect(bodiesOf(effects, "step.committed")[0]).toMatchObject({ sections: sectionsOf(4), drifted: 1 });
  });

  it("do not agree on the weights where all three are different", () => {
    expect(told(job("weights", { p0: a, p1: voteFor(4, "b"), p2: c }))).toContain("! step.retried");
  });

  it("follow the first rank where that leads, and nobody is wrong", () => {
    const effects = outcome(job("leader"))?.effects ?? [];
    expect(linesOf(effects)).toEqual(["p0 step.apply", "p1 step.discard", "p2 step.discard", "! step.committed"]);
    expect(bodiesOf(effects, "step.committed")[0]).toMatchObject({ sections: sectionsOf(4), drifted: 2 });
    expect(outcome(job("leader"))?.state.divergences).toBeUndefined();
  });

  it("follow the first rank that lives", () => {
    const state = job("leader");
    const lost = { ...state, members: without(state.members, "p0") };
    expect(told(lost)).toEqual(["p1 step.apply", "p2 step.discard", "! step.committed"]);
  });

  it("say nothing of drift where all have the same", () => {
    const [body] = bodiesOf(outcome(job("leader", { p0: a, p1: a, p2: a }))?.effects ?? [], "step.committed");
    expect(body).not.toHaveProperty("drifted");
  });
});

describe("drift", () => {
  const sketched = (...sketches: number[][]): ControllerState => {
    const votes = sketches.map((sketch, i) => [`p${i}`, voteFor(4, "abc"[i], { sketch })] as const);
    return job("leader", Object.fromEntries(votes) as Parameters<typeof job>[1]);
  };

  it("is the distance of the farthest sketch, as a share of the first rank's norm", () => {
    const effects = outcome(sketched([3, 4], [3, 4.01], [3, 3.98]))?.effects ?? [];
    expect(bodiesOf(effects, "step.committed")[0]?.drift).toBeCloseTo(0.004, 6);
    expect(bodiesOf(effects, "alarm.raised")).toEqual([]);
  });

  it("is an alarm beyond its bound", () => {
    const [alarm] = bodiesOf(outcome(sketched([3, 4], [3, 4.5], [3, 4]))?.effects ?? [], "alarm.raised");
    expect(alarm).toMatchObject({ alarm: "drift", detail: expect.stringContaining("10 % of their norm") });
  });

  it("is told of weights with a small norm, and where only one has others", () => {
    const small = outcome(sketched([0.3, 0.4], [0.3, 0.4], [0.3, 0.45]))?.effects ?? [];
    expect(bodiesOf(small, "step.committed")[0]?.drift).toBeCloseTo(0.1, 6);
    const votes = { p0: voteFor(4, "a", { sketch: [3, 4] }), p1: a, p2: voteFor(4, "c", { sketch: [3, 4.5] }) };
    const [one] = bodiesOf(outcome(job("leader", votes))?.effects ?? [], "step.committed");
    expect(one).toMatchObject({ drifted: 1, drift: 0.1 });
  });

  it("is not told where it can not be", () => {
    for (const sketches of [
      [
        [0, 0],
        [1, 1],
        [1, 2],
      ],
      [[1, 2], [], []],
    ])
      expect(bodiesOf(outcome(sketched(...sketches))?.effects ?? [], "step.committed")[0]).not.toHaveProperty("drift");
  });
});

describe("a trainer that drifted", () => {
  const committed = (): ControllerState => outcome(job("leader"))?.state as ControllerState;
  const body = { lineage: 0, version: 4, sections: sectionsOf(4), bytes: 8, durationMs: 1 };
  const holds = (state: ControllerState, id: string): ControllerState =>
    applyHeld(state, reportFrom(state, id, { kind: "weights.held", body: { ...body, addresses: [`unix:${id}`] } }))
      .state;
  const led = (): ControllerState => holds(committed(), "p0");
  const pulling = (): ControllerState => planPulls(led())?.state as ControllerState;

  it("pulls the first rank's state and keeps its place in the mesh, which waits for it", () => {
    const pulls = bodiesOf(planPulls(led())?.effects ?? [], "weights.pull").slice(0, 2);
    expect(pulls.map(({ holders }) => holders.map(({ id }) => id))).toEqual([["p0"], ["p0"]]);
    for (const state of [committed(), led(), pulling(), holds(pulling(), "p1")]) expect(planMesh(state)).toBeNull();
    const next = { ...holds(pulling(), "p1"), groups: { 5: groupsOf(5, 4) } };
    expect(planStepRun(next)).toBeNull();
    expect(linesOf(planStepRun(holds(next, "p2"))?.effects ?? [])).toEqual([
      "p0 step.run",
      "p1 step.run",
      "p2 step.run",
    ]);
    expect(holds(pulling(), "p1").members.p1?.isFollowing).toBe(false);
  });

  it("loses its place when it can not get that state, and goes when it does not answer", () => {
    const failure = { lineage: 0, version: 4, cause: "no route" };
    const failed = applyFailed(pulling(), reportFrom(pulling(), "p1", { kind: "weights.failed", body: failure })).state;
    expect(bodiesOf(planMesh(failed)?.effects ?? [], "mesh.build")[0]?.members.map(({ id }) => id)).toEqual([
      "p0",
      "p2",
    ]);
    const silent = withMember(pulling(), "p1", { unanswered: 2 });
    expect(planOverdue({ ...silent, nowMs: 90_000 })?.state.members.p1).toBeUndefined();
  });
});
