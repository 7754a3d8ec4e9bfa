/** Jobs that sample and train at different times, and groups that come from files. */
import { control } from "@muster/machines/internal";
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { dispatchGroups, planEvaluation } from "../src/controller/groups/dispatch-groups.ts";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import { isPhaseOver, planPhase } from "../src/controller/phases/plan-phase.ts";
import { planWatchdog } from "../src/controller/plan-watchdog.ts";
import type { ControllerState, StepGroups } from "../src/controller/state.ts";
import { planStepRun } from "../src/controller/step/plan-step.ts";
import { bodiesOf, groupsOf, linesOf, planWith, receiptOf, sectionsOf, working } from "./states.ts";

const plan = planWith({ steps: 20, stalenessMax: 0, evalPrompts: 0 });

/** A job at step 4, of which so many of four groups are sampled. */
function at(settled: number, patch: Partial<ControllerState> = {}): ControllerState {
  const groups: Record<string, StepGroups> = { 4: groupsOf(4, settled) };
  return working({
    plan,
    patch: { groups, ledger: { admitted: 8, trained: 0, aborted: 0, quarantined: 0 }, ...patch },
  });
}

const operate = <K extends "job.phase" | "groups.import">(state: ControllerState, type: K, body: Body<K>) =>
  control(state, { type, atMs: state.nowMs, from: "op", role: "operator", incarnation: "o1", body } as never);

describe("a job that only samples", () => {
  const rollout = { phase: "rollout" } as const;

  it("leases groups, trains none, and says once that all are there", () => {
    expect(linesOf(dispatchGroups(at(0, { jobPhase: rollout }))?.effects ?? [])).toContain("r0 groups.lease");
    const full = at(4, { jobPhase: rollout });
    expect(planStepRun(at(4))?.effects.length).toBe(2);
    expect(planStepRun(full)).toBeNull();
    const ended = planPhase(full);
    expect(bodiesOf(ended?.effects ?? [], "phase.ended")).toEqual([
      expect.objectContaining({ phase: "rollout", step: 4, version: 3, groups: 4, of: 4 }),
    ]);
    expect(planPhase(ended?.state as ControllerState)).toBeNull();
    expect(planPhase(at(3, { jobPhase: rollout }))).toBeNull();
  });

  it("trains what it sampled when it is told to", () => {
    const { state, effects } = operate(at(4, { jobPhase: { ...rollout, told: "4 4 " } }), "job.phase", {
      phase: "update",
    });
    expect(linesOf(effects)).toEqual(expect.arrayContaining(["! command.done", "p0 step.run", "p1 step.run"]));
    expect(state.step.state).toBe("running");
    expect(operate(state, "job.phase", { phase: "both" }).state).not.toHaveProperty("jobPhase");
  });

  it("waits for no step that may not be sampled now, as after it went back: what such a step has not got is sampled later", () => {
    const gone = at(4, { jobPhase: rollout, groups: { 4: groupsOf(4, 4), 5: groupsOf(5, 1) } });
    expect(dispatchGroups(gone)).toBeNull();
    expect(bodiesOf(planPhase(gone)?.effects ?? [], "phase.ended").map(({ step }) => step)).toEqual([4]);
    const ahead = {
      ...gone,
      plan: { ...plan, stalenessMax: 2 },
      changes: [{ fromStep: 5, settings: { stalenessMax: 1 } }],
    };
    expect(isPhaseOver(ahead)).toBe(false);
    expect(isPhaseOver({ ...ahead, groups: { 4: groupsOf(4, 4), 5: groupsOf(5, 4), 6: groupsOf(6, 0) } })).toBe(true);
  });

  it("is blamed for no time while it waits to be told", () => {
    const waiting = at(4, { jobPhase: rollout, nowMs: 1e9, progress: { atMs: 0, stage: 0, isShort: true } });
    expect(isPhaseOver(waiting)).toBe(true);
    expect(planWatchdog(waiting)).toBeNull();
  });
});

describe("a job that only trains", () => {
  const update = { phase: "update" } as const;

  it("leases no group, waits for those on lease, and says what is missing", () => {
    expect(dispatchGroups(at(1, { jobPhase: update }))).toBeNull();
    const item = { purpose: "train" as const, step: 4, index: 1, attempt: 0 };
    const leases = { "1-1": { holder: "r0", items: [item], dueAtMs: 9_000 } };
    expect(planPhase(at(1, { jobPhase: update, leases }))).toBeNull();
    expect(bodiesOf(planPhase(at(1, { jobPhase: update }))?.effects ?? [], "phase.ended")).toEqual([
      expect.objectContaining({ phase: "update", step: 4, groups: 1, of: 4 }),
    ]);
  });

  it("evaluates nothing before the end", () => {
    const evaluated = { jobPhase: update, plan: { ...plan, evalPrompts: 8, evalEverySteps: 1 } };
    expect(planEvaluation(at(4, evaluated))).toBeNull();
    expect(planEvaluation(at(4, { ...evaluated, jobPhase: { phase: "rollout" } }))?.state.evaluation).toBeTruthy();
  });

  it.each([
    [0.5, 2, "running"],
    [0.75, 2, "sampling"],
    [0.75, 3, "running"],
  ])(
    "with a quorum of %d and %i of 4 groups is %s after it was told; what is missing is counted",
    (quorum, there, is) => {
      const { state, effects } = operate(at(there, { jobPhase: update }), "job.phase", {
        ...{ phase: "update", partial: { step: 4, quorum } },
      });
      expect(state.step.state).toBe(is);
      expect(imbalanceOf(ledgerOf(state))).toBe(0);
      expect(bodiesOf(effects, "alarm.raised").map(({ alarm }) => alarm)).toEqual(is === "running" ? ["coverage"] : []);
      expect(bodiesOf(effects, "step.partial").map(({ missing }) => missing)).toEqual(
        is === "running" ? [[0, 1, 2, 3].slice(there)] : [],
      );
      expect(bodiesOf(effects, "phase.ended").length).toBe(is === "running" ? 0 : 1);
    },
  );

  it("does not take the quorum of one step for another", () => {
    const { state } = operate(at(3, { jobPhase: update }), "job.phase", {
      ...{ phase: "update", partial: { step: 5, quorum: 0.1 } },
    });
    expect(state.step.state).toBe("sampling");
  });
});

describe("an order of a phase", () => {
  const answer = (state: ControllerState, body: Body<"job.phase">): unknown[] => {
    const { effects } = operate(state, "job.phase", body);
    return [...bodiesOf(effects, "command.refused"), ...bodiesOf(effects, "command.done")].map((said) =>
      "reason" in said ? `no: ${said.reason}` : said.detail,
    );
  };

  it("is answered with what the job does from then on, or with why it is not taken", () => {
    expect(answer(at(0), { phase: "rollout" })).toEqual(["the job only samples from now on"]);
    expect(answer(at(0), { phase: "both" })).toEqual(["the job samples and trains from now on"]);
    const partial = { step: 4, quorum: 0.5 };
    expect(answer(at(0), { phase: "rollout", partial })).toEqual([
      "no: partial goes with phase = update, and phase = rollout; leave it out",
    ]);
    const ending = { outcome: "stopped", reason: "enough", announced: true } as const;
    expect(answer(at(0, { ending }), { phase: "update" })).toEqual(["no: the job is ending: enough"]);
  });

  it("that leaves out what is missing trains something, and counts what was given up before among the missing", () => {
    const update = { phase: "update", partial: { step: 4, quorum: 0 } } as const;
    const none = operate(at(0, { jobPhase: update }), "job.phase", update);
    expect(none.state.step.state).toBe("sampling");
    expect(bodiesOf(none.effects, "step.partial")).toEqual([]);
    const groups = { 4: { ...groupsOf(4, 2), quarantined: [3] } };
    const ledger = { admitted: 8, trained: 0, aborted: 0, quarantined: 2 };
    const half = { phase: "update", partial: { step: 4, quorum: 0.5 } } as const;
    const { state, effects } = operate(at(2, { jobPhase: half, groups, ledger }), "job.phase", half);
    expect(bodiesOf(effects, "step.partial")).toEqual([{ step: 4, missing: [2], coverage: 0.5, quorum: 0.5 }]);
    expect(state.ledger.quarantined).toBe(4);
    expect(state.groups[4]).toMatchObject({ queue: [], quarantined: [3, 2] });
    const detail = bodiesOf(effects, "alarm.raised").find(({ alarm }) => alarm === "coverage")?.detail;
    expect(detail).toBe("step 4 is trained on 50 % of its groups, as the quorum of 50 % allows: 1 are missing");
  });
});

describe("a phase", () => {
  const over = at(4, { jobPhase: { phase: "rollout" } });
  const evaluation = { version: 3, queue: [], settled: [], attempts: {}, chunks: 1, prompts: 0, correct: 0 };

  it.each<[string, Partial<ControllerState>]>([
    ["the job does both", { jobPhase: undefined as never }],
    ["there are no weights", { weights: null }],
    ["the job ends", { ending: { outcome: "done", reason: "", announced: false } }],
    ["prompts are evaluated", { evaluation }],
    ["a step runs", { step: { ...over.step, state: "running" } }],
    ["all steps are done", { step: { ...over.step, step: 21 }, groups: { 21: groupsOf(21, 4) } }],
    ["its step is not open yet", { groups: {} }],
  ])("is not over while %s", (_, patch) => {
    expect(isPhaseOver(over)).toBe(true);
    expect(isPhaseOver({ ...over, ...patch })).toBe(false);
  });

  it("that only trains is not over while a group of training is out, and is while only prompts are", () => {
    const item = { purpose: "train" as const, step: 4, index: 1, attempt: 0 };
    const held = { purpose: "eval" as const, chunk: 0, from: 0, count: 4 };
    const out = (...items: (typeof item | typeof held)[]) =>
      at(1, { jobPhase: { phase: "update" }, leases: { "1-1": { holder: "r0", items, dueAtMs: 9_000 } } });
    expect([isPhaseOver(out(held)), isPhaseOver(out(held, item))]).toEqual([true, false]);
    expect(isPhaseOver(at(4, { jobPhase: { phase: "update" } }))).toBe(false);
  });

  it("of the last step is over as any other, and says what it was about", () => {
    const last = { ...over, step: { ...over.step, step: 20 }, groups: { 20: groupsOf(20, 4) } };
    const reasonOf = (state: ControllerState) => bodiesOf(planPhase(state)?.effects ?? [], "phase.ended")[0]?.reason;
    expect(reasonOf(last)).toBe("all groups of step 20 are sampled");
    const update = at(1, { jobPhase: { phase: "update" } });
    expect(reasonOf(update)).toBe("1 of 4 groups of step 4 are there, and this phase samples none");
  });

  it("that may be partial goes on with a single group where that is its quorum", () => {
    const partial = { step: 4, quorum: 0.25 };
    const change = planPhase(at(1, { jobPhase: { phase: "update", partial } }));
    expect(bodiesOf(change?.effects ?? [], "step.partial")).toMatchObject([{ missing: [1, 2, 3], coverage: 0.25 }]);
  });

  it("is said to be over again when more is there, or when something else was allowed meanwhile", () => {
    const update = (patch: object, there = 1) => planPhase(at(there, { jobPhase: { phase: "update", ...patch } }));
    const told = update({})?.state.jobPhase?.told;
    expect(update({ told })).toBeNull();
    expect(update({ told }, 2)).not.toBeNull();
    expect(update({ told, partial: { step: 4, quorum: 0.9 } })).not.toBeNull();
    expect(update({ told, partial: { step: 5, quorum: 0.9 } })).toBeNull();
  });
});

describe("an import", () => {
  const weights = { version: 3, sections: sectionsOf(3) };
  const three = [0, 1, 2].map((index) => receiptOf(4, index, { streamSeq: 700 + index }));
  const said = (effects: ReturnType<typeof control>["effects"]): string[] => [
    ...bodiesOf(effects, "command.done").map(({ detail }) => detail),
    ...bodiesOf(effects, "command.refused").map(({ reason }) => reason),
  ];

  it("settles groups that wait, and leaves those that are settled; the step runs when all are there", () => {
    const { state, effects } = operate(at(1, { jobPhase: { phase: "update" } }), "groups.import", {
      weights,
      receipts: three,
    });
    expect(said(effects)).toEqual(["2 of 3 groups are taken; 1 were settled already"]);
    expect(state.groups[4]?.receipts[0]?.streamSeq).toBe(400);
    const one = operate(state, "groups.import", { weights, receipts: three.slice(0, 1), commandId: "c-1" });
    expect(said(one.effects)).toEqual(["0 of 1 groups are taken; 1 were settled already"]);
    const last = operate(state, "groups.import", { weights, receipts: [receiptOf(4, 3)] });
    expect(last.state.step.state).toBe("running");
    const again = operate(last.state, "groups.import", { weights, receipts: three, commandId: "c-2" });
    expect(said(again.effects)).toEqual(["0 of 3 groups are taken; 3 were settled already"]);
  });

  it("takes the first result of a group that it names twice, and counts it once", () => {
    const twice = [receiptOf(4, 0, { streamSeq: 700, completed: 1, aborted: 1 }), receiptOf(4, 0, { streamSeq: 701 })];
    const { state, effects } = operate(at(0), "groups.import", { weights, receipts: twice });
    expect(said(effects)).toEqual(["1 of 2 groups are taken; 1 were settled already"]);
    expect(state.groups[4]?.receipts[0]?.streamSeq).toBe(700);
    expect([state.dropped.duplicate, state.givenUp.recent]).toEqual([0, [{ trajectories: 2, givenUp: 1 }]]);
  });

  it("counts what is sampled again because it is too old for its step by now", () => {
    const later = at(0, { purgedSeq: 0, weights: { lineage: 0, version: 3, sections: sectionsOf(3) } });
    const noVersion = { version: 2, sections: [] };
    const { effects } = operate(later, "groups.import", {
      weights: noVersion,
      receipts: [receiptOf(4, 0, { version: 2 })],
    });
    expect(said(effects)).toEqual([expect.stringContaining("allows 0 versions between them")]);
    const { state, effects: done } = operate(later, "groups.import", { weights, receipts: [receiptOf(4, 0)] });
    expect(said(done)).toEqual(["1 of 1 groups are taken"]);
    expect(state.groups[4]?.receipts[0]?.streamSeq).toBe(400);
  });

  it("of weights that are older than the job's is taken where the step may be trained with them", () => {
    const lenient = at(0, { plan: { ...plan, stalenessMax: 1 } });
    const old = { version: 2, sections: [] };
    const { effects } = operate(lenient, "groups.import", {
      weights: old,
      receipts: [receiptOf(4, 0, { version: 2 })],
    });
    expect(said(effects)).toEqual(["1 of 1 groups are taken"]);
    const message = operate(at(0, { purgedSeq: 400 }), "groups.import", { weights, receipts: [receiptOf(4, 0)] });
    expect(said(message.effects)).toEqual(["1 of 1 groups are taken"]);
  });

  it("is refused before its step is open", () => {
    const { effects } = operate(at(0, { groups: {} }), "groups.import", { weights, receipts: [receiptOf(4, 0)] });
    expect(said(effects)).toEqual([expect.stringContaining("is of a step that is not sampled yet")]);
  });

  it("is refused before there are weights, and at the end", () => {
    const { effects } = operate(at(0, { weights: null }), "groups.import", { weights, receipts: three });
    expect(said(effects)).toEqual([expect.stringContaining("no weights yet")]);
    const ending = { outcome: "stopped", reason: "enough", announced: true } as const;
    const ended = operate(at(0, { ending }), "groups.import", { weights, receipts: three });
    expect(said(ended.effects)).toEqual(["the job is ending: enough"]);
  });

  it("does not train a step again that is trained", () => {
    const old = [0, 1].map((index) => receiptOf(3, index, { version: 3 }));
    const { state, effects } = operate(at(0), "groups.import", { weights, receipts: old });
    expect(said(effects)).toEqual(["0 of 2 groups are taken; 2 were settled already"]);
    expect(state.ledger.trained).toBe(0);
  });

  it.each<[string, Partial<Body<"groups.import">>, string]>([
    ["of other weights", { weights: { version: 3, sections: sectionsOf(3, "b") } }, "w3b, and here w3a"],
    ["of weights that it does not name", { weights: { version: 3, sections: [] } }, "the file does not name"],
    ["of later weights", { weights: { version: 4, sections: [] } }, "later than version 3"],
    ["of a later step", { receipts: [receiptOf(5, 0, { version: 3 })] }, "the job is at step 4"],
    [
      "of the last step, which is not sampled yet",
      { receipts: [receiptOf(20, 0, { version: 3 })] },
      "the job is at step 4",
    ],
    ["beyond the last step", { receipts: [receiptOf(21, 0, { version: 3 })] }, "the job has 20 steps"],
    ["that a step has not", { receipts: [receiptOf(4, 4)] }, "step 4 has 4 groups"],
    ["with too few trajectories", { receipts: [receiptOf(4, 1, { completed: 1 })] }, "are not the 2 trajectories"],
    ["that is too old", { receipts: [receiptOf(4, 1, { version: 2 })] }, "allows 0 versions"],
    ["newer than its file says", { receipts: [receiptOf(4, 1, { version: 9 })] }, "has version 9"],
  ])("of a group %s is refused as a whole and changes nothing", (_, patch, says) => {
    const before = at(1);
    const { state, effects } = operate(before, "groups.import", { weights, receipts: three, ...patch });
    expect(said(effects)).toEqual([expect.stringContaining(says)]);
    expect(state.groups[4]?.receipts).toEqual(before.groups[4]?.receipts);
  });

  it("of messages that are purged is refused", () => {
    const { effects } = operate(at(1, { purgedSeq: 702 }), "groups.import", { weights, receipts: three });
    expect(said(effects)).toEqual([expect.stringContaining("store it again")]);
  });
});
