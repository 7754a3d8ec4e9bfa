/** Settings that an operator changes while a job exists: from which step they count, and what is refused. */
import type { ControllerEvent, ControllerState } from "@muster/machines/controller";
import { imbalanceOf, ledgerOf } from "@muster/machines/controller";
import { control } from "@muster/machines/internal";
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { applyRestored } from "../src/controller/checkpoints/apply-restored.ts";
import { goBack } from "../src/controller/checkpoints/plan-restore.ts";
import { dispatchGroups, planAdmission } from "../src/controller/groups/dispatch-groups.ts";
import { planEnd } from "../src/controller/plan-end.ts";
import { foreseenFlaw, stepsAheadMax } from "../src/controller/settings.ts";
import { lastOpened, sizesUpTo, stepsOf } from "../src/controller/sizes.ts";
import { initialControllerState, without } from "../src/controller/state.ts";
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

  it("may begin with the last step", () => {
    expect(ask(working({ plan: asyncPlan }), { settings: { lr: 1 }, fromStep: 20 }).refusal).toBeNull();
  });

  it("is foreseen by whoever knows only the plan and the step", () => {
    const flaw = (step: number, fromStep?: number) =>
      foreseenFlaw(
        asyncPlan,
        { step, changes: [] },
        { settings: { lr: 1 }, ...(fromStep === undefined ? {} : { fromStep }) },
      );
    expect(flaw(3, 3)).toContain("the first step that can have other settings is 4");
    expect([flaw(3, 4), flaw(3)]).toEqual([null, null]);
  });

  it("to another staleness is refused in sync", () => {
    expect(ask(working({ plan: planWith({ steps: 20 }) }), { settings: { stalenessMax: 1 } }).refusal).toContain(
      "mode sync",
    );
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

const batchBounds = { minibatches: 2, minibatchesMax: 64, trainGroups: 0, groupBytes: 1_000, streamBytes: 40_000 };

describe("another batch", () => {
  const plan = planWith({ stalenessMax: 1, steps: 20, settings: rate, batchBounds });

  it("counts from the first step on of which nothing is sampled: a step keeps the size with which it was opened", () => {
    // Step 4 waits for its groups, and step 5 is sampled ahead.
    const opened = planAdmission(working({ plan, patch: { groups: { 4: groupsOf(4, 1) } } }))?.state;
    if (!opened) throw new Error("nothing was opened");
    const { next, changed } = ask(opened, { settings: { groupsPerStep: 6, lr: 0.5 } });
    expect(changed).toEqual([
      { fromStep: 6, settings: { groupsPerStep: 6, lr: 0.5 }, before: { groupsPerStep: 4, lr: 0.01 } },
    ]);
    expect(Object.values(next.groups).map(({ queue }) => queue.length)).toEqual([0, 4]);
    const later = planAdmission({ ...next, step: { ...next.step, step: 5 }, groups: without(next.groups, "4") });
    expect(later?.state.groups[6]?.queue).toHaveLength(6);
    expect(later?.state.ledger.admitted).toBe(next.ledger.admitted + 6 * 2);
    expect(imbalanceOf(ledgerOf({ ...next, ledger: { ...next.ledger, admitted: 8 * 2 } }))).toBe(0);
  });

  it("has each group draw the prompt after the one before it, and says the place only where the configuration does not", () => {
    const plain = working({ plan: planWith({ steps: 20, batchBounds }) });
    const leased = (state: ControllerState) =>
      bodiesOf(dispatchGroups(state)?.effects ?? [], "groups.lease").flatMap(({ items }) =>
        items.map((item) => ("position" in item ? item.position : null)),
      );
    const opened = (changes: ControllerState["changes"]) => {
      const state = changes ? { ...plain, changes } : plain;
      return planAdmission({ ...state, groups: {} })?.state ?? state;
    };
    expect(leased(opened(undefined))).toContain(null);
    // Steps 1 and 2 have four groups, step 3 has one.
    const changes = [
      { fromStep: 3, settings: { groupsPerStep: 1 } },
      { fromStep: 4, settings: { groupsPerStep: 3 } },
    ];
    expect(leased(opened(changes)).sort()).toEqual([10, 11, 9]);
    // A job whose first step was changed already has one size, and not that of its configuration.
    const fromFirst = [{ fromStep: 1, settings: { groupsPerStep: 2 } }];
    expect(leased(opened(fromFirst)).sort()).toEqual([6, 7]);
  });

  it("comes again with the same sizes when the job goes back before it", () => {
    const changes = [{ fromStep: 5, settings: { groupsPerStep: 2 } }];
    const history = { 4: Object.values(groupsOf(4, 4).receipts), 5: Object.values(groupsOf(5, 2).receipts) };
    const state = working({ plan, version: 5, patch: { changes, history, groups: {} } });
    const back = goBack(state, "for the test").state;
    expect(Object.entries(back.groups).map(([step, { quarantined }]) => [step, quarantined])).toEqual([
      ["4", []],
      ["5", []],
    ]);
    expect(Object.keys(back.groups["5"]?.receipts ?? {})).toEqual(["0", "1"]);
    // What was sampled before the job went back keeps its size, too.
    expect(
      ask({ ...back, weights: { ...weights, sections: [] } }, { settings: { groupsPerStep: 9 } }).changed,
    ).toMatchObject([{ fromStep: 6 }]);
  });

  it("goes into the checkpoint, so that a job whose journal is lost goes on with the next prompt", () => {
    const changes = [
      { fromStep: 2, settings: { groupsPerStep: 2 } },
      { fromStep: 9, settings: { groupsPerStep: 3 } },
    ];
    expect(sizesUpTo({ plan, changes }, 4)).toEqual({ sizes: [{ fromStep: 2, groupsPerStep: 2 }] });
    expect(sizesUpTo({ plan }, 4)).toEqual({});
    expect(sizesUpTo({ plan, changes }, 9).sizes).toHaveLength(2);
    const own = plan.groupsPerStep;
    const of = (...sizes: readonly (readonly [number, number])[]) =>
      sizesUpTo(
        { plan, changes: sizes.map(([fromStep, groupsPerStep]) => ({ fromStep, settings: { groupsPerStep } })) },
        4,
      );
    expect(of([1, own])).toEqual({});
    expect(of([1, 2])).toEqual({ sizes: [{ fromStep: 1, groupsPerStep: 2 }] });
    expect(of([1, 2], [2, own])).toEqual({
      sizes: [
        { fromStep: 1, groupsPerStep: 2 },
        { fromStep: 2, groupsPerStep: own },
      ],
    });
    const ledger = { trained: 12, aborted: 0, quarantined: 0 };
    const found = { step: 4, version: 4, lineage: 0, path: "/c/step-4", host: "h", ledger };
    const restored = (sizes?: { fromStep: number; groupsPerStep: number }[]) =>
      applyRestored(initialControllerState(plan), {
        ...{ type: "controller.restored", atMs: 0 },
        checkpoint: { ...found, ...(sizes ? { sizes } : {}) },
      }).state;
    expect(restored([{ fromStep: 2, groupsPerStep: 2 }]).changes).toEqual(changes.slice(0, 1));
    expect(restored()).not.toHaveProperty("changes");
  });

  it("has trainers cut it as it was changed", () => {
    const { next } = ask(working({ plan }), { settings: { minibatches: 4 } });
    expect(runBodyOf(next, weights).rate).toEqual({ minibatches: 4 });
  });

  it.each([
    [
      "more minibatches than groups",
      { groupsPerStep: 1 },
      "batch.minibatches = 2 with batch.groups_per_step = 1 from step 5 on",
    ],
    ["more groups than the stream holds", { groupsPerStep: 21 }, "which is 20 groups a step; use 20 or fewer"],
    [
      "more staleness than the stream holds",
      { stalenessMax: 10 },
      "batch.groups_per_step = 4 from step 4 on, with job.staleness_max = 10",
    ],
  ] as const)("that has %s is refused with the way out, and changes nothing", (_, settings, reason) => {
    const state = working({ plan, patch: { groups: { 4: groupsOf(4, 1) } } });
    const { refusal, changed, next } = ask(state, { settings });
    expect(refusal).toContain(reason);
    expect([changed, next.changes]).toEqual([[], undefined]);
  });

  it("is held against what is ordered for later steps", () => {
    const state = working({ plan, patch: { changes: [{ fromStep: 9, settings: { minibatches: 4 } }] } });
    expect(ask(state, { settings: { groupsPerStep: 3 } }).refusal).toContain("from step 9 on");
  });

  it("is refused for a step that is sampled, with fewer groups than are to be trained on, and with updates that the algorithm has not", () => {
    const asked = (bounds: object, body: Body<"job.change">) =>
      ask(working({ plan: { ...plan, batchBounds: { ...batchBounds, ...bounds } } }), body).refusal;
    const state = working({ plan, patch: { groups: { 4: groupsOf(4, 1) } } });
    expect(ask(state, { settings: { groupsPerStep: 6 }, fromStep: 4 }).refusal).toContain(
      "is sampled already; the first step that can have other settings is 5",
    );
    expect(asked({ trainGroups: 4 }, { settings: { groupsPerStep: 3 } })).toContain("use 4 or more");
    expect(asked({ trainGroups: 4 }, { settings: { groupsPerStep: 4 } })).toBeNull();
    expect(asked({ minibatchesMax: 3 }, { settings: { minibatches: 3 } })).toBeNull();
    // As many as the stream holds: twice as many where a step may not be sampled ahead.
    expect(asked({}, { settings: { groupsPerStep: 20 } })).toBeNull();
    const sync = working({ plan: planWith({ steps: 20, settings: rate, batchBounds }) });
    expect(ask(sync, { settings: { groupsPerStep: 40 } }).refusal).toBeNull();
    expect(ask(sync, { settings: { groupsPerStep: 41 } }).refusal).toContain("use 40 or fewer");
    expect(asked({ minibatchesMax: 1 }, { settings: { minibatches: 2, groupsPerStep: 8 } })).toContain("use 1");
    const { batchBounds: _, ...old } = plan;
    expect(ask(working({ plan: old }), { settings: { groupsPerStep: 3 } }).refusal).toContain(
      "did not say what a batch",
    );
    expect(ask(working({ plan: old }), { settings: { lr: 3 } }).refusal).toBeNull();
  });
});

describe("another number of steps", () => {
  const plan = planWith({ steps: 6, batchBounds });
  const opened = (state: ControllerState) => planAdmission(state)?.state ?? state;

  it("prolongs a job, and the learning rate of each step falls to the end that was known when it was ordered", () => {
    const { next, changed } = ask(opened(working({ plan, version: 4 })), { settings: { steps: 9 } });
    expect(changed).toEqual([{ fromStep: 5, settings: { steps: 9 }, before: { steps: 6 } }]);
    expect(stepsOf(next)).toBe(9);
    const rateIn = (step: number) => runBodyOf({ ...next, step: { ...next.step, step } }, weights).rate;
    expect([rateIn(4), rateIn(5)]).toEqual([undefined, { steps: 9 }]);
    const last = { ...next, step: { ...next.step, step: 7 }, groups: {} };
    expect(Object.keys(opened(last).groups)).toEqual(["7"]);
    expect(planEnd(last)).toBeNull();
  });

  it("shortens it down to the step that has groups or runs, and no further", () => {
    const state = opened(working({ plan, version: 2 }));
    expect(ask(state, { settings: { steps: 2 } }).refusal).toBe(
      "job.steps = 2: step 3 is committed, runs or is sampled already; use 3 or more",
    );
    expect(stepsOf(ask(state, { settings: { steps: 3 } }).next)).toBe(3);
    const running = stepping({}, { plan });
    const least = running.step.step;
    expect(ask(running, { settings: { steps: least } }).changed).toMatchObject([{ fromStep: least + 1 }]);
    expect(ask(running, { settings: { steps: least - 1 } }).refusal).toContain(`use ${least} or more`);
    const alone = { ...running, groups: {} };
    expect(ask(alone, { settings: { steps: least - 1 } }).refusal).toContain(`use ${least} or more`);
    const waiting = working({ plan });
    expect(ask(waiting, { settings: { steps: 3 } }).refusal).toBeNull();
    expect(ask(waiting, { settings: { steps: 2 } }).refusal).toContain("use 3 or more");
    const first = working({ plan, version: 0 });
    expect(ask(first, { settings: { steps: 1 } }).refusal).toBeNull();
    expect(ask(first, { settings: { steps: 0 } }).refusal).toContain("use 1 or more");
    expect([lastOpened(waiting), lastOpened({ ...waiting, groups: { 6: groupsOf(6, 0) } })]).toEqual([3, 6]);
    expect(ask(running, { settings: { steps: least, lr: 1 } }).refusal).toContain("is after the last step");
  });
});
