/** A trainer that computes other weights again and again is evicted, and its place waits. */
import { describe, expect, it } from "vitest";
import { applyEnded, mustWait } from "../src/controller/members/evictions.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { planDivergent } from "../src/controller/step/divergence.ts";
import { planStepOutcome } from "../src/controller/step/plan-step.ts";
import { bodiesOf, groupsOf, linesOf, stepping, voteFor } from "./states.ts";

const members = ["p0", "p1", "p2", "r0"];

/** Commits the next step; `p2` computes something else where it is said so. */
function commit(state: ControllerState, isWrong: boolean): ControllerState {
  const { step } = state.step;
  const votes = { p0: voteFor(step), p1: voteFor(step), p2: voteFor(step, isWrong ? "b" : "a") };
  const groups = { [step]: groupsOf(step, 4, 4) };
  const run = { ...state.step, state: "running" as const, votes };
  return planStepOutcome({ ...state, step: run, groups })?.state ?? state;
}

const after = (...wrong: readonly boolean[]): ControllerState => wrong.reduce(commit, stepping({}, { members }));

describe("a trainer that differs from the majority", () => {
  it("in three of its last ten steps is evicted, with the steps as the cause", () => {
    const even = [false, false, false];
    expect(planDivergent(after(true, false, true))).toBeNull();
    const out = planDivergent(after(true, ...even, true, ...even, true));
    expect(linesOf(out?.effects ?? [])).toEqual(["! member.died", "p2 replica.fenced"]);
    expect(bodiesOf(out?.effects ?? [], "member.died")[0]?.evidence).toBe(
      "computed other weights than the majority in steps 4, 8, 12",
    );
    expect(out?.state.divergences).toEqual({});
  });

  it("stays while a step runs, and at the end", () => {
    const state = after(true, true, true);
    expect(planDivergent(state)).not.toBeNull();
    expect(planDivergent({ ...state, step: { ...state.step, state: "running" } })).toBeNull();
    expect(planDivergent({ ...state, ending: { outcome: "done", reason: "", announced: false } })).toBeNull();
  });

  it("now and then stays", () => {
    const even = [false, false, false, false, false];
    expect(planDivergent(after(true, ...even, true, ...even, true))).toBeNull();
  });

  it("may differ again ten steps later: what lies further back is forgotten", () => {
    const nine = Array.from({ length: 9 }, () => false);
    expect(after(true, ...nine).divergences).toEqual({ p2: [4] });
    expect(after(true, ...nine, false).divergences).toEqual({});
    expect(after(true, ...nine, true).divergences).toEqual({ p2: [14] });
  });

  it("is not blamed for steps that a rollback took back", () => {
    const ahead = { ...after(), divergences: { p2: [3, 4, 5, 9] } };
    expect(commit(ahead, false).divergences).toEqual({ p2: [3, 4] });
    expect(commit({ ...ahead, divergences: { p2: [5, 9] } }, false).divergences).toEqual({});
  });

  it("waits for its pause also when its process is known to have ended", () => {
    const state = after(true, true, true);
    const out = planDivergent(state)?.state ?? state;
    const { host = "", pid = 0 } = state.members.p2 ?? {};
    expect(mustWait(applyEnded(out, { id: "p2", host, pid }), "p2")).toBe(true);
  });
});
