/** The outcome rule of a step: it commits when every surviving member voted commit, and only then (semantics 6.1, 6.2). */
import { describe, expect, it } from "vitest";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import { type ControllerState, withMember, without } from "../src/controller/state.ts";
import { planStepOutcome, planStepRun } from "../src/controller/step/plan-step.ts";
import {
  bodiesOf,
  groupsOf,
  linesOf,
  memberOf,
  planWith,
  receiptOf,
  sectionsOf,
  stepping,
  voteFor,
  working,
} from "./states.ts";

const ready = (patch: Partial<ControllerState> = {}): ControllerState =>
  working({
    patch: { groups: { 4: groupsOf(4, 4) }, ledger: { admitted: 8, trained: 0, aborted: 0, quarantined: 0 }, ...patch },
  });

const lose = (state: ControllerState, id: string): ControllerState => ({
  ...state,
  members: without(state.members, id),
});

const outcomeOf = (state: ControllerState) => {
  const change = planStepOutcome(state);
  return { state: change?.state ?? state, lines: linesOf(change?.effects ?? []), effects: change?.effects ?? [] };
};

describe("a step", () => {
  it("runs when its groups are settled and the mesh is ready, from the committed version", () => {
    const change = planStepRun(ready());
    expect(linesOf(change?.effects ?? [])).toEqual(["p0 step.run", "p1 step.run"]);
    expect(bodiesOf(change?.effects ?? [], "step.run")[0]).toMatchObject({
      step: 4,
      attempt: 1,
      epoch: 2,
      lineage: 0,
      version: 3,
    });
    expect(change?.state.step).toMatchObject({ state: "running", startedAtMs: 1_000, dueAtMs: 5_000 });
  });

  it("names its batch by message, in the order of the stream", () => {
    const receipts = [
      receiptOf(4, 0, { streamSeq: 9 }),
      receiptOf(4, 1, { streamSeq: 2 }),
      receiptOf(4, 3, { streamSeq: 9 }),
    ];
    const groups = {
      queue: [],
      receipts: Object.fromEntries(receipts.map((own) => [own.index, own])),
      quarantined: [2],
    };
    const change = planStepRun(ready({ groups: { 4: groups } }));
    expect(bodiesOf(change?.effects ?? [], "step.run")[0]?.batch).toEqual([
      { streamSeq: 2, groupIds: ["4.1"] },
      { streamSeq: 9, groupIds: ["4.0", "4.3"] },
    ]);
  });

  const order = { lineage: 0, version: 3, dueAtMs: 9_000 } as const;
  it.each<[string, (state: ControllerState) => ControllerState]>([
    ["a group is missing", (state) => ({ ...state, groups: { 4: groupsOf(4, 3) } })],
    ["the mesh is being built", (state) => ({ ...state, mesh: { ...state.mesh, state: "building" } })],
    ["a member of the mesh is lost", (state) => lose(state, "p1")],
    [
      "another life has the id of a member",
      (state) => ({
        ...state,
        members: { ...state.members, p1: memberOf("p1", 7, { held: { lineage: 0, version: 3 } }) },
      }),
    ],
    ["a member is behind", (state) => withMember(state, "p1", { held: { lineage: 0, version: 2 } })],
    [
      "a member makes the last commit live",
      (state) => withMember(state, "p1", { order: { kind: "step.apply", ...order } }),
    ],
    [
      "an evaluation is open",
      (state) => ({
        ...state,
        evaluation: { version: 3, queue: [], settled: [], attempts: {}, chunks: 1, prompts: 0, correct: 0 },
      }),
    ],
    [
      "a joiner is pulling this version",
      (state) => ({
        ...state,
        members: { ...state.members, p5: memberOf("p5", 9, { order: { kind: "weights.pull", ...order } }) },
      }),
    ],
    ["the job is ending", (state) => ({ ...state, ending: { outcome: "stopped", reason: "", announced: false } })],
    [
      "the only holders want to leave",
      (state) => withMember(withMember(state, "p0", { health: "draining" }), "p1", { health: "draining" }),
    ],
  ])("does not run while %s", (_, change) => {
    expect(planStepRun(ready())).not.toBeNull();
    expect(planStepRun(change(ready()))).toBeNull();
  });

  it.each([
    ["pulls an older version", { order: { kind: "weights.pull", lineage: 0, version: 2, dueAtMs: 9_000 } as const }],
    ["is suspected", { health: "suspect" as const, order: { kind: "weights.pull", ...order } as const }],
    ["let an order pass without an answer", { unanswered: 1, order: { kind: "weights.pull", ...order } as const }],
  ])("does not wait for a joiner that %s", (_, patch) => {
    const state = ready();
    expect(planStepRun({ ...state, members: { ...state.members, p5: memberOf("p5", 9, patch) } })).not.toBeNull();
  });

  it("is skipped when none of its groups could be sampled", () => {
    const groups = { queue: [], receipts: {}, quarantined: [0, 1, 2, 3] };
    const change = planStepRun(
      ready({ groups: { 4: groups }, ledger: { admitted: 8, trained: 0, aborted: 0, quarantined: 8 } }),
    );
    expect(linesOf(change?.effects ?? [])).toEqual(["! step.skipped"]);
    expect(change?.state.step.step).toBe(5);
    expect(imbalanceOf(ledgerOf(change?.state as ControllerState))).toBe(0);
  });
});

describe("the outcome of a step", () => {
  it("waits for every surviving member", () => {
    expect(planStepOutcome(stepping({}))).toBeNull();
    expect(planStepOutcome(stepping({ p0: voteFor(4) }))).toBeNull();
  });

  it("is a commit when all survivors voted commit for the same candidate", () => {
    const { state, lines, effects } = outcomeOf(stepping({ p0: voteFor(4), p1: voteFor(4) }));
    expect(lines).toEqual(["p0 step.apply", "p1 step.apply", "! step.committed"]);
    expect(state.weights).toEqual({ lineage: 0, version: 4, sections: sectionsOf(4) });
    expect(state.step).toMatchObject({ step: 5, attempt: 1, state: "sampling", votes: {} });
    expect(state.history[4]).toHaveLength(4);
    expect(state.groups).toEqual({});
    expect(ledgerOf(state)).toEqual({ admitted: 8, trained: 8, aborted: 0, quarantined: 0, pending: 0 });
    expect(bodiesOf(effects, "step.apply")[0]).toEqual({
      step: 4,
      attempt: 1,
      epoch: 2,
      lineage: 0,
      version: 4,
      sections: sectionsOf(4),
      keep: [],
    });
    expect(bodiesOf(effects, "step.committed")[0]).toMatchObject({
      groups: ["4.0", "4.1", "4.2", "4.3"],
      reward: 0.5,
      tokens: 20,
      staleness: 0,
    });
  });

  it("is a retry in a new epoch when any survivor voted abort, whatever the others voted", () => {
    const abort = voteFor(4, "a", { vote: "abort", sections: [], cause: "out of memory" });
    for (const votes of [{ p0: abort }, { p0: abort, p1: voteFor(4) }]) {
      const { state, lines, effects } = outcomeOf(stepping(votes));
      expect(lines).toEqual(["p0 step.discard", "p1 step.discard", "! step.retried"]);
      expect(state.step).toMatchObject({ step: 4, attempt: 2, failures: 1, state: "sampling", votes: {} });
      expect(state.mesh.state).toBe("broken");
      expect(state.weights?.version).toBe(3);
      expect(state.groups[4]).toEqual(groupsOf(4, 4));
      expect(bodiesOf(effects, "step.retried")[0]).toEqual({ step: 4, attempt: 2, reason: "out of memory" });
    }
  });

  it("is a retry when a member is lost before its vote, and counts as nobody's failure", () => {
    const { state, lines } = outcomeOf(lose(stepping({ p0: voteFor(4) }), "p1"));
    expect(lines).toEqual(["p0 step.discard", "! step.retried"]);
    expect(state.step).toMatchObject({ attempt: 2, failures: 0 });
    expect(state.mesh).toMatchObject({ state: "broken", dueAtMs: 1_000 });
  });

  it("is a retry at once when another life has come under the id of a member that did not vote", () => {
    const state = stepping({ p0: voteFor(4) });
    const { lines } = outcomeOf({ ...state, members: { ...state.members, p1: memberOf("p1", 7) } });
    expect(lines).toEqual(["p0 step.discard", "! step.retried"]);
  });

  it("stays a commit when a member is lost after its vote, and nobody waits for its next life", () => {
    const voted = stepping({ p0: voteFor(4), p1: voteFor(4) });
    expect(outcomeOf(lose(voted, "p1")).lines).toEqual(["p0 step.apply", "! step.committed"]);
    const replaced = { ...voted, members: { ...voted.members, p1: memberOf("p1", 7) } };
    const { state, lines } = outcomeOf(replaced);
    expect(lines).toEqual(["p0 step.apply", "! step.committed"]);
    expect(state.members.p1?.order).toBeNull();
  });

  it("does not count the abort of a lost member", () => {
    const abort = voteFor(4, "a", { vote: "abort", sections: [] });
    expect(outcomeOf(lose(stepping({ p0: voteFor(4), p1: abort }), "p1")).lines).toContain("! step.committed");
  });

  it("counts the candidates of lost members: a lone survivor does not outvote two who agreed", () => {
    const members = ["p0", "p1", "p2", "r0"];
    const votes = { p0: voteFor(4), p1: voteFor(4), p2: voteFor(4, "b") };
    const alone = outcomeOf(lose(lose(stepping(votes, { members }), "p0"), "p1"));
    expect(alone.lines).toEqual(["p2 step.discard", "! step.retried"]);
    expect(alone.state.step).toMatchObject({ attempt: 2, failures: 0 });
    const two = outcomeOf(lose(stepping(votes, { members }), "p0"));
    expect(two.lines).toContain("p1 step.apply");
    expect(two.state.weights?.sections).toEqual(sectionsOf(4));
    const halves = outcomeOf(lose(stepping({ p0: voteFor(4, "b"), p1: voteFor(4) }), "p1"));
    expect(halves.state.step).toMatchObject({ attempt: 2, failures: 1 });
  });

  it("is a retry when every policy replica is lost", () => {
    const { state, lines } = outcomeOf(lose(lose(stepping({ p0: voteFor(4), p1: voteFor(4) }), "p0"), "p1"));
    expect(lines).toEqual(["! step.retried"]);
    expect(state.weights?.version).toBe(3);
  });

  it("is what the majority computed; who computed something else drops it and must pull", () => {
    const members = ["p0", "p1", "p2", "r0"];
    const votes = { p0: voteFor(4), p1: voteFor(4, "b"), p2: voteFor(4) };
    const { state, lines } = outcomeOf(stepping(votes, { members }));
    expect(lines).toEqual(["p0 step.apply", "p2 step.apply", "p1 step.discard", "! alarm.raised", "! step.committed"]);
    expect(state.weights?.sections).toEqual(sectionsOf(4));
    expect(state.members.p1).toMatchObject({ held: null, order: null });
    expect(state.members.p0?.order).toMatchObject({ kind: "step.apply", lineage: 0, version: 4 });
  });

  it.each([
    [{ p0: "a", p1: "b" }, ["p0", "p1", "r0"]],
    [{ p0: "a", p1: "a", p2: "b", p3: "b" }, ["p0", "p1", "p2", "p3", "r0"]],
    [{ p0: "a", p1: "b", p2: "c" }, ["p0", "p1", "p2", "r0"]],
  ])("is a retry when no majority agrees: %j", (flavours, members) => {
    const votes = Object.fromEntries(Object.entries(flavours).map(([id, flavour]) => [id, voteFor(4, flavour)]));
    const { state, lines } = outcomeOf(stepping(votes, { members }));
    expect(lines).toContain("! step.retried");
    expect(state.step.failures).toBe(1);
  });

  it("goes back to the newest checkpoint when they never agree, and ends when they do not from there either", () => {
    const last = planWith().limits.stepAttemptsMax - 1;
    const votes = { p0: voteFor(4, "a"), p1: voteFor(4, "b") };
    const saved = {
      wantedStep: null,
      dueAtMs: 0,
      saved: { step: 2, version: 2, path: "/c/2", host: "h" },
      failures: 0,
    };
    const tied = stepping(votes, { patch: { checkpoints: saved } });
    const worn = { ...tied, step: { ...tied.step, failures: last } };
    const { state, lines } = outcomeOf(worn);
    expect(lines.filter((line) => line === "! alarm.raised")).toHaveLength(1);
    expect(state).toMatchObject({ ending: null, weights: null, wentBackAt: 4, restore: { lineage: 1, version: 2 } });
    expect(outcomeOf({ ...worn, wentBackAt: 4 }).state.ending).toMatchObject({
      outcome: "failed",
      reason: expect.stringContaining("no majority agrees"),
    });
  });

  it("is a skip when any loss or gradient was not finite: weights stay, the batch is given up and accounted for", () => {
    const bad = voteFor(4, "a", { finite: false });
    const { state, lines } = outcomeOf(stepping({ p0: voteFor(4), p1: bad }));
    expect(lines).toEqual(["p0 step.discard", "p1 step.discard", "! step.skipped"]);
    expect(state.weights?.version).toBe(3);
    expect(state.step.step).toBe(5);
    expect(ledgerOf(state)).toEqual({ admitted: 8, trained: 0, aborted: 0, quarantined: 8, pending: 0 });
  });

  it("evicts who has not voted by the deadline and runs again with the others", () => {
    const late = { ...stepping({ p0: voteFor(4) }), nowMs: 5_000 };
    expect(planStepOutcome({ ...late, nowMs: 4_999 })).toBeNull();
    const { state, lines } = outcomeOf(late);
    expect(lines).toEqual(["! member.died", "p1 replica.fenced", "p0 step.discard", "! step.retried"]);
    expect(Object.keys(state.members)).toEqual(["p0", "r0"]);
    expect(state.step).toMatchObject({ attempt: 2, failures: 0 });
  });

  it("after a loss waits a moment for the evidence of who is lost, when nobody is known to be", () => {
    const abort = voteFor(4, "a", { vote: "abort", sections: [], missing: ["p1"], cause: "lost p1" });
    const { state } = outcomeOf(stepping({ p0: abort }));
    expect(state.mesh.dueAtMs).toBe(1_000 + state.plan.timing.commandMs / 25);
    expect(state.step.failures).toBe(0);
  });

  it("fails the job when a step fails too often for reasons of its own", () => {
    const abort = voteFor(4, "a", { vote: "abort", sections: [], cause: "broken" });
    const state = stepping({ p0: abort });
    const { stepAttemptsMax } = state.plan.limits;
    const last = outcomeOf({ ...state, step: { ...state.step, failures: stepAttemptsMax - 1 } });
    expect(last.state.ending).toMatchObject({ outcome: "failed", reason: "step 4 failed 5 times: broken" });
    expect(outcomeOf({ ...state, step: { ...state.step, failures: stepAttemptsMax - 2 } }).state.ending).toBeNull();
  });

  it("says how old the oldest group of the batch was", () => {
    const state = stepping(
      { p0: voteFor(10), p1: voteFor(10) },
      { version: 9, plan: planWith({ stalenessMax: 2, steps: 50 }) },
    );
    const groups = {
      ...groupsOf(10, 4),
      receipts: { ...groupsOf(10, 4).receipts, 2: receiptOf(10, 2, { version: 7 }) },
    };
    expect(bodiesOf(outcomeOf({ ...state, groups: { 10: groups } }).effects, "step.committed")[0]?.staleness).toBe(2);
  });
});
