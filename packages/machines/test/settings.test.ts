/** Settings that an operator changes while a job exists: from which step they count, and what is refused. */
import type { ControllerEvent, ControllerState } from "@muster/machines/controller";
import { control } from "@muster/machines/internal";
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { planAdmission } from "../src/controller/groups/dispatch-groups.ts";
import { stepsAheadMax } from "../src/controller/settings.ts";
import { planStepRun, runBodyOf } from "../src/controller/step/plan-step.ts";
import { bodiesOf, groupsOf, planWith, receiptOf, stepping, working } from "./states.ts";

const rate = { lr: 0.01, lrWarmupSteps: 5, lrFinalRatio: 0.1, lrSchedule: "linear" } as const;
const asyncPlan = planWith({ stalenessMax: 1, steps: 20, settings: rate });

function ask(state: ControllerState, body: Body<"job.change">) {
  const from = { from: "ops", role: "operator", incarnation: "i1", atMs: state.nowMs };
  const { state: next, effects } = control(state, { type: "job.change", ...from, body } as ControllerEvent);
  const [refused] = bodiesOf(effects, "command.refused");
  const [done] = bodiesOf(effects, "command.done");
  return { next, changed: bodiesOf(effects, "job.changed"), refusal: refused?.reason ?? null, done: done?.detail };
}

const weights = { lineage: 0, version: 3 };

it("as many steps may be sampled ahead as the largest bound of any change allows, and a change without one allows none", () => {
  const ahead = (stalenessMax: number, ...changed: (number | undefined)[]) => {
    const changes = changed.map((own) => ({
      fromStep: 9,
      settings: own === undefined ? { lr: 1 } : { stalenessMax: own },
    }));
    return stepsAheadMax(working({ plan: planWith({ stalenessMax }), patch: { changes } }));
  };
  expect([ahead(0), ahead(0, undefined), ahead(2, 1), ahead(1, 3, 2), ahead(1, undefined)]).toEqual([0, 0, 2, 3, 1]);
});

describe("a change of settings", () => {
  it("counts from the next step on that has not begun, and is said with what was before", () => {
    const waiting = ask(working({ plan: asyncPlan }), { settings: { lr: 0.5 } });
    expect(waiting.changed).toEqual([{ fromStep: 4, settings: { lr: 0.5 }, before: { lr: 0.01 } }]);
    expect(waiting.done).toBe("optimizer.lr = 0.5 from step 4 on");
    expect(runBodyOf(waiting.next, weights)).toMatchObject({ step: 4, rate: { lr: 0.5 } });
    const running = ask(stepping({}, { plan: asyncPlan }), { settings: { lr: 0.5 } });
    expect(running.changed).toMatchObject([{ fromStep: 5 }]);
    expect(runBodyOf(running.next, weights)).not.toHaveProperty("rate");
  });

  it("belongs to its steps: a job that goes back does each with what it had", () => {
    let state = working({ plan: asyncPlan });
    for (const [fromStep, lr] of [
      [8, 0.5],
      [6, 0.2],
    ] as const)
      state = ask(state, { settings: { lr }, fromStep }).next;
    const rates = [5, 6, 7, 8, 9].map((step) => runBodyOf({ ...state, step: { ...state.step, step } }, weights).rate);
    expect(rates).toEqual([undefined, { lr: 0.2 }, { lr: 0.2 }, { lr: 0.5 }, { lr: 0.5 }]);
  });

  it("says where it ends: a later step, e.g. after the job went back, may have another value already", () => {
    const planned = ask(working({ plan: asyncPlan }), { settings: { lr: 0.5, stalenessMax: 2 }, fromStep: 8 });
    const next = ask(planned.next, { settings: { lr: 0.2 } });
    expect(next.done).toBe(
      "optimizer.lr = 0.2 from step 4 on; from step 8 on it is as ordered before: optimizer.lr = 0.5",
    );
    const same = ask(planned.next, { settings: { lr: 0.01 } });
    expect(same.done).toContain("it is so already: optimizer.lr = 0.01 from step 4 on; from step 8 on");
    expect(ask(planned.next, { settings: { lrWarmupSteps: 1 } }).done).toBe(
      "optimizer.lr_warmup_steps = 1 from step 4 on",
    );
    // The later of two orders for one step counts.
    const back = ask(planned.next, { settings: { lr: 0.2 }, fromStep: 8 });
    expect(ask(back.next, { settings: { lr: 0.2 } }).done).toBe("optimizer.lr = 0.2 from step 4 on");
    expect(ask(planned.next, { settings: { lr: 0.2 }, fromStep: 9 }).done).toBe("optimizer.lr = 0.2 from step 9 on");
  });

  it("that is so already changes nothing, so that a command may be given twice", () => {
    const once = ask(working({ plan: asyncPlan }), { settings: { lr: 0.5 } });
    const twice = ask(once.next, { settings: { lr: 0.5 } });
    expect(twice.changed).toEqual([]);
    expect(twice.done).toContain("so already");
    expect(twice.next.changes).toBe(once.next.changes);
    expect(ask(working({ plan: asyncPlan }), { settings: rate }).changed).toEqual([]);
  });

  it.each([
    ["nothing", { settings: {} }, "names nothing"],
    ["a step that is over", { settings: { lr: 1 }, fromStep: 3 }, "the first step that can have other settings is 4"],
    ["a step after the last", { settings: { lr: 1 }, fromStep: 21 }, "job.steps = 20"],
    ["sync in async", { settings: { stalenessMax: 0 } }, "use 1"],
  ] as const)("to %s is refused with the way out", (_, body, reason) => {
    const { refusal, changed, next } = ask(working({ plan: asyncPlan }), body);
    expect(refusal).toContain(reason);
    expect([changed, next.changes]).toEqual([[], undefined]);
  });

  it("to another staleness is refused in sync", () => {
    expect(ask(working({ plan: planWith({ steps: 20 }) }), { settings: { stalenessMax: 2 } }).refusal).toContain(
      'job.mode = "async"',
    );
  });

  it("of which there are too many is refused, however long the job is", () => {
    let state = working({ plan: asyncPlan });
    for (let i = 1; i <= 256; i++) state = ask(state, { settings: { lr: i } }).next;
    expect(state.changes).toHaveLength(256);
    expect(ask(state, { settings: { lr: 0.3 } }).refusal).toContain("256 changes are the most");
  });
});

describe("another staleness", () => {
  const opened = (state: ControllerState) => Object.keys((planAdmission(state)?.state ?? state).groups).map(Number);

  it("lets each step be sampled as far ahead as that step may be", () => {
    const state = working({ plan: asyncPlan });
    expect(opened(state)).toEqual([4, 5]);
    expect(opened(ask(state, { settings: { stalenessMax: 3 } }).next)).toEqual([4, 5, 6, 7]);
    // Step 5 keeps its own bound, and step 6 has the new one.
    expect(opened(ask(state, { settings: { stalenessMax: 2 }, fromStep: 6 }).next)).toEqual([4, 5, 6]);
  });

  it("that is less has older groups sampled again when their step would begin: none is lost, none is trained too old", () => {
    const plan = planWith({ stalenessMax: 2, steps: 20 });
    const groups = groupsOf(4, 4);
    const receipts = { ...groups.receipts, 1: receiptOf(4, 1, { version: 1 }) };
    const before = working({ plan, patch: { groups: { 4: { ...groups, receipts } } } });
    expect(planStepRun(before)?.state.step.state).toBe("running");
    const after = planStepRun({ ...before, changes: [{ fromStep: 4, settings: { stalenessMax: 1 } }] });
    expect(after?.state.groups[4]?.queue.map(({ index }) => index)).toEqual([1]);
    expect(Object.keys(after?.state.groups[4]?.receipts ?? {})).toEqual(["0", "2", "3"]);
  });
});
