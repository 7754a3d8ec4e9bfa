import { decideFailure, type FailurePolicy, failureDefaults } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { applySaveFailed } from "../src/controller/checkpoints/apply-checkpoint.ts";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { planStepOutcome, planStepRun } from "../src/controller/step/plan-step.ts";
import { planInitialWeights } from "../src/controller/weights/plan-weights.ts";
import { bodiesOf, groupsOf, linesOf, planWith, receiptOf, reportFrom, stepping, voteFor, working } from "./states.ts";

const policy = (patch: Partial<FailurePolicy> = {}) => planWith({ failure: { ...failureDefaults, ...patch } });
const odd = { p0: voteFor(4, "a", { finite: false }), p1: voteFor(4) };

/** The step after `state`'s, with votes. */
function voted(state: ControllerState, votes: ControllerState["step"]["votes"]): ControllerState {
  const { step, plan, ledger } = state;
  const admitted = ledger.admitted + (state.groups[step.step] ? 0 : plan.groupsPerStep * plan.groupSize);
  return {
    ...state,
    groups: { ...state.groups, [step.step]: groupsOf(step.step, plan.groupsPerStep, plan.groupsPerStep) },
    step: { ...step, state: "running", votes, dueAtMs: 9_000 },
    ledger: { ...ledger, admitted },
  };
}

/** Skips `count` steps in a row; each time the state as it is after the outcome. */
function skips(start: ControllerState, count: number) {
  let change = planStepOutcome(start);
  for (let i = 1; i < count; i++) change = planStepOutcome(voted(change?.state ?? start, odd));
  return { state: change?.state ?? start, effects: change?.effects ?? [] };
}

const saved = { wantedStep: null, dueAtMs: 0, saved: { step: 2, version: 2, path: "/c/2", host: "h" }, failures: 0 };
const start = (patch: Partial<ControllerState> = {}): ControllerState =>
  stepping(odd, { plan: policy(), patch: { checkpoints: saved, history: { 3: [receiptOf(3, 0)] }, ...patch } });

describe("steps that are not finite", () => {
  it("are skipped one by one at first: weights stay, the batch is given up", () => {
    const { state, effects } = skips(start(), 2);
    expect(state).toMatchObject({ weights: { version: 3 }, step: { step: 6 }, nonFiniteInRow: 2 });
    expect(bodiesOf(effects, "step.skipped")).toHaveLength(1);
    expect(state.ledger.quarantined).toBe(2 * 8);
  });

  it("take the job back to the newest checkpoint when the third one comes, in a new lineage", () => {
    const { state, effects } = skips(start(), 3);
    expect(linesOf(effects)).toEqual(["p0 step.discard", "p1 step.discard", "! step.skipped", "! alarm.raised"]);
    expect(bodiesOf(effects, "alarm.raised")[0]?.detail).toMatch(
      /^3 steps in a row .*; going back to step 2 in lineage 1$/,
    );
    expect(state).toMatchObject({
      weights: null,
      restore: { lineage: 1, version: 2, source: { kind: "checkpoint", path: "/c/2" } },
      step: { step: 3, state: "sampling" },
      nonFiniteInRow: 0,
      wentBackAt: 6,
    });
    expect(linesOf(planInitialWeights(state)?.effects ?? [])).toEqual(["p0 weights.initialize"]);
  });

  it("are never trained after the way back: their batches stay quarantined, the others wait with what was sampled", () => {
    const { state } = skips(start(), 3);
    expect(state.groups[4]).toMatchObject({ queue: [], receipts: {}, quarantined: [0, 1, 2, 3] });
    expect(Object.keys(state.groups[3]?.receipts ?? {})).toEqual(["0"]);
  });

  it("keep the ledger even", () => {
    const before = start({
      history: {},
      checkpoints: { ...saved, saved: { step: 3, version: 3, path: "/c/3", host: "h" } },
    });
    expect(imbalanceOf(ledgerOf(before))).toBe(0);
    expect(imbalanceOf(ledgerOf(skips(before, 3).state))).toBe(0);
  });

  it("go back to the first weights where there is no checkpoint", () => {
    const { state } = skips(start({ checkpoints: { ...saved, saved: null } }), 3);
    expect(state.restore).toEqual({ lineage: 1, version: 0, source: state.plan.weights });
  });

  it("are in a row only without a commit between them", () => {
    const two = skips(start(), 2).state;
    const committed = planStepOutcome(voted(two, { p0: voteFor(4), p1: voteFor(4) }))?.state ?? two;
    expect(committed.nonFiniteInRow).toBe(0);
    expect(committed.weights?.version).toBe(4);
  });

  it("end the job when they come again right after it went back", () => {
    const again = skips(start({ nonFiniteInRow: 2, wentBackAt: 9 }), 1).state;
    expect(again.ending).toMatchObject({
      outcome: "failed",
      reason: expect.stringContaining("again after going back"),
    });
  });

  it("end the job at once where the rule says so", () => {
    const nonFinite = { action: "abort", attempts: 1, backoffMs: 0 } as const;
    const state = stepping(odd, { plan: policy({ nonFinite }) });
    expect(planStepOutcome(state)?.state.ending).toMatchObject({ outcome: "failed", announced: false });
  });
});

describe("a batch", () => {
  it.each([0, 1, 2])("with staleness %i runs only with groups that are fresh enough when it runs", (stalenessMax) => {
    const plan = planWith({ stalenessMax });
    const receipts = (oldest: number) => ({
      ...groupsOf(10, 4).receipts,
      2: receiptOf(10, 2, { version: oldest, attempt: 1 }),
    });
    const at = (oldest: number): ControllerState => {
      const fresh = Object.fromEntries(
        Object.entries(receipts(oldest)).map(([key, one]) => [key, { ...one, version: key === "2" ? oldest : 9 }]),
      );
      return working({ plan, version: 9, patch: { groups: { 10: { ...groupsOf(10, 4), receipts: fresh } } } });
    };
    expect(planStepRun(at(9 - stalenessMax))?.state.step.state).toBe("running");
    const late = planStepRun(at(9 - stalenessMax - 1));
    expect(late?.state.step.state).toBe("sampling");
    expect(late?.state.groups[10]?.queue).toEqual([{ index: 2, attempt: 1 }]);
    expect(late?.state.dropped.stale).toBe(1);
    expect(Object.keys(late?.state.groups[10]?.receipts ?? {})).toEqual(["0", "1", "3"]);
  });
});

describe("a checkpoint that fails", () => {
  const failed = (state: ControllerState) => {
    const body = { step: 3, lineage: 0, version: 3, cause: "ENOSPC" };
    return applySaveFailed(state, reportFrom(state, "c0", { kind: "checkpoint.failed", body }));
  };

  it("is tried again after a pause that grows", () => {
    const one = failed(working({ plan: policy(), members: ["p0", "c0"] }));
    const two = failed(one.state);
    const { nowMs } = one.state;
    expect([one, two].map(({ state }) => (state.members.c0?.retryAtMs ?? 0) - nowMs)).toEqual([1_000, 2_000]);
    expect(two.state.checkpoints).toMatchObject({ failures: 2, wantedStep: 3 });
    expect(decideFailure(failureDefaults, "checkpoint_io", 2).action).toBe("retry");
  });

  it("ends the job where its rule says so, with the cause", () => {
    const checkpointIo = { action: "abort", attempts: 2, backoffMs: 0 } as const;
    const one = failed(working({ plan: policy({ checkpointIo }), members: ["p0", "c0"] }));
    expect(one.state.ending).toBeNull();
    expect(failed(one.state).state.ending?.reason).toBe(
      "2 checkpoints in a row failed, the last one of step 3: ENOSPC",
    );
  });
});
