/** Work that somebody holds: who may have it, what comes back of it, and what the operator hears of that. */
import { describe, expect, it } from "vitest";
import { applyEvaluated } from "../src/controller/groups/apply-evaluation.ts";
import { applyReturned } from "../src/controller/groups/apply-groups.ts";
import { dispatchGroups, planAdmission, planEvaluation } from "../src/controller/groups/dispatch-groups.ts";
import { idleSamplers } from "../src/controller/groups/idle-samplers.ts";
import { releasedFacts, withPartials } from "../src/controller/groups/leases.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, linesOf, planWith, reportFrom, working } from "./states.ts";

const train = (index: number, patch: object = {}) => ({
  purpose: "train" as const,
  step: 4,
  index,
  attempt: 0,
  ...patch,
});
const chunk = (at: number, count = 64) => ({ purpose: "eval" as const, chunk: at, from: 64 * at, count });
const dueAtMs = 9_000;

describe("held-out prompts that were answered", () => {
  const evaluation = { version: 3, queue: [], settled: [], attempts: {}, chunks: 2, prompts: 0, correct: 0 };
  const start = (leases: ControllerState["leases"]): ControllerState =>
    working({ members: ["p0", "r0", "r1"], patch: { evaluation, leases } });
  const answered = (state: ControllerState, patch: object = {}) => {
    const body = { leaseId: "1-1", version: 3, chunk: 0, prompts: 64, correct: 9, ...patch };
    return applyEvaluated(state, reportFrom(state, "r0", { kind: "evals.completed", body })).state;
  };

  it("leave their lease, and nothing else of it does", () => {
    const state = start({ "1-1": { holder: "r0", items: [chunk(0), chunk(1, 36), train(0)], dueAtMs } });
    expect(answered(state).leases["1-1"]?.items).toEqual([chunk(1, 36), train(0)]);
    expect(answered(state, { chunk: 1, prompts: 36 })).toMatchObject({
      leases: { "1-1": { items: [chunk(0), train(0)] } },
      evaluation: { settled: [1], prompts: 36 },
    });
  });

  it("may all be right, and not more than all", () => {
    const state = start({ "1-1": { holder: "r0", items: [chunk(0)], dueAtMs } });
    expect(answered(state, { correct: 64 }).evaluation).toMatchObject({ settled: [0], correct: 64 });
    expect(answered(state, { correct: 65 }).evaluation).toEqual(evaluation);
  });

  it("count from who had them first, wherever they are now", () => {
    const moved = start({ "1-2": { holder: "r1", items: [chunk(1, 36), chunk(0)], dueAtMs } });
    expect(answered(moved).evaluation).toMatchObject({ settled: [0], prompts: 64 });
    expect(answered(moved, { prompts: 36 }).evaluation).toEqual(evaluation);
  });
});

describe("work that is handed back", () => {
  const start = (): ControllerState => {
    const leases = { "1-1": { holder: "r0", items: [train(0), train(1)], dueAtMs } };
    return working({ members: ["p0", "r0", "r1"], patch: { leases, groups: { 4: { ...groupsOf(4, 0), queue: [] } } } });
  };
  const returned = (patch: object, state = start()) => {
    const body = { leaseId: "1-1", items: [train(1)], reason: "leaving", ...patch };
    return applyReturned(state, reportFrom(state, "r0", { kind: "groups.returned", body }));
  };

  it("untouched is no news, and begun it is, with what was drawn for nothing", () => {
    expect(returned({}).effects).toEqual([]);
    expect(returned({}).state.groups[4]?.queue).toEqual([{ index: 1, attempt: 0 }]);
    const wasted = returned({ tokensWasted: 1 });
    expect(bodiesOf(wasted.effects, "groups.released")).toEqual([
      { holder: "r0", count: 1, reason: "leaving", items: ["4.1"], tokensWasted: 1 },
    ]);
    expect(wasted.state.groups[4]?.queue).toEqual([{ index: 1, attempt: 0, last: "r0" }]);
    const partial = { streamSeq: 7, tokens: 3 };
    const begun = returned({ items: [train(1, { partial })] });
    expect(bodiesOf(begun.effects, "groups.released")).toHaveLength(1);
    expect(begun.state.groups[4]?.queue).toEqual([{ index: 1, attempt: 0, last: "r0", partial }]);
  });

  it("that was on no lease is no news whatever is said of it", () => {
    expect(linesOf(returned({ items: [train(3)], tokensWasted: 5 }).effects)).toEqual([]);
  });

  it("for lack of memory is told of with what its sampler draws from then on, and evicts it where the rule says so", () => {
    const short = returned({ failure: "oom" });
    expect(bodiesOf(short.effects, "alarm.raised")).toMatchObject([{ alarm: "memory" }]);
    expect(short.state.shortages).toEqual({ r0: 1 });
    const state = start();
    const oom = { action: "restart", attempts: 1, backoffMs: 0 } as const;
    const plan = { ...state.plan, failure: { ...state.plan.failure, oom } };
    const out = returned({ failure: "oom" }, { ...state, plan });
    expect(bodiesOf(out.effects, "member.died")).toMatchObject([{ id: "r0", by: "engine", silentMs: 0 }]);
  });
});

describe("what is told of work that went back", () => {
  const facts = (count: number, tokensWasted?: number) => {
    const items = Array.from({ length: count }, (_, index) => train(index));
    const why = { holder: "r0", reason: "r0 died", failure: null };
    const told = { why, items, started: items.slice(0, 2), ...(tokensWasted === undefined ? {} : { tokensWasted }) };
    const { sampled } = { sampled: { groups: 4, tokens: 40 } };
    return bodiesOf(releasedFacts({ ...working(), sampled }, told), "groups.released");
  };

  it("are pages of at most 1,024 pieces, of which the first has what was drawn for nothing", () => {
    expect(facts(1_024, 9).map(({ count, tokensWasted }) => [count, tokensWasted])).toEqual([[1_024, 9]]);
    const pages = facts(2_049, 9);
    expect(pages.map(({ count, items, tokensWasted }) => [count, items.length, tokensWasted])).toEqual([
      [1_024, 1_024, 9],
      [1_024, 1_024, 0],
      [1, 1, 0],
    ]);
    expect([pages[1]?.items[0], pages[2]?.items]).toEqual(["4.1024", ["4.2048"]]);
    expect(facts(0)).toHaveLength(1);
  });

  it("estimates what a holder that is gone had drawn by what groups usually take", () => {
    expect(facts(3)[0]?.tokensWasted).toBe(20);
    const drawnOf = (started: readonly object[], groups = 1) => {
      const why = { holder: "r0", reason: "r0 died", failure: null };
      const told = { why, items: started as never, started: started as never };
      return bodiesOf(releasedFacts({ ...working(), sampled: { groups, tokens: 40 } }, told), "groups.released")[0];
    };
    expect(drawnOf([train(0)])?.tokensWasted).toBe(40);
    expect(drawnOf([train(0)], 0)?.tokensWasted).toBe(40);
    // What is stored is not lost, and held-out prompts are not of these groups.
    expect(drawnOf([train(0, { partial: { streamSeq: 7, tokens: 30 } })])?.tokensWasted).toBe(10);
    expect(drawnOf([train(0, { partial: { streamSeq: 7, tokens: 41 } }), chunk(0)])?.tokensWasted).toBe(0);
  });
});

describe("what is saved of a group", () => {
  it("is the newer word of it, as far as it is not purged", () => {
    const partial = (streamSeq: number, firstSeq?: number) => ({
      streamSeq,
      tokens: 1,
      ...(firstSeq ? { firstSeq } : {}),
    });
    const after = (before: object | undefined, told: object, purgedSeq = 0) => {
      const [item] = withPartials(
        [train(0, before ? { partial: before } : {})],
        [train(0, { partial: told })] as never,
        purgedSeq,
      );
      return item?.purpose === "train" ? item.partial : undefined;
    };
    expect(after(undefined, partial(1))).toEqual(partial(1));
    expect(after(partial(5), partial(6))).toEqual(partial(6));
    expect(after(partial(5), partial(5, 4))).toEqual(partial(5));
    expect([after(undefined, partial(6, 3), 3), after(undefined, partial(6, 3), 4)]).toEqual([
      partial(6, 3),
      undefined,
    ]);
  });
});

describe("who gets work", () => {
  const limits = { ...planWith().limits, leasesPerRollout: 1, leaseGroupsMax: 8, chunkGroups: 8 };
  const open = (patch: Partial<ControllerState> = {}, plan = planWith({ limits })): ControllerState =>
    working({ plan, members: ["p0", "r0", "r1"], patch: { groups: { 4: groupsOf(4, 0) }, ...patch } });
  const leasesIn = (state: ControllerState) =>
    (dispatchGroups(state)?.effects ?? []).flatMap((effect) =>
      effect.type === "command" && effect.kind === "groups.lease"
        ? [[effect.to, effect.body.items.length] as const]
        : [],
    );

  it("is nobody before there are weights, and nobody at the end", () => {
    expect(dispatchGroups(open({ weights: null }))).toBeNull();
    expect(dispatchGroups(open({ ending: { outcome: "done", reason: "", announced: false } }))).toBeNull();
  });

  it("is nobody whom the operator has taken out of use", () => {
    const state = open();
    const cordoned = { ...state, fleet: { ...state.fleet, cordoned: ["r0"] } };
    expect(leasesIn(cordoned).map(([id]) => id)).toEqual(["r1"]);
  });

  it("is who holds nothing else, for a group that somebody failed over, and by itself", () => {
    const queue = [
      { index: 0, attempt: 0 },
      { index: 1, attempt: 1, last: "r1" },
      { index: 2, attempt: 0 },
    ];
    const state = open({ groups: { 4: { ...groupsOf(4, 0), queue } } });
    const bodies = bodiesOf(dispatchGroups(state)?.effects ?? [], "groups.lease");
    expect(bodies.map(({ items }) => items.map((item) => (item.purpose === "train" ? item.index : -1)))).toEqual([
      [1],
      [0, 2],
    ]);
  });

  it("is nobody for a group whose pause is not over, nor its last holder while there is another", () => {
    const waits = (patch: object) => {
      const queue = [{ index: 1, attempt: 1, ...patch }];
      return leasesIn(open({ groups: { 4: { ...groupsOf(4, 0), queue } } })).map(([id]) => id);
    };
    expect([waits({}), waits({ last: "r0" })]).toEqual([["r0"], ["r1"]]);
    expect([waits({ dueAtMs: 1_000 }), waits({ dueAtMs: 1_001 })]).toEqual([["r0"], []]);
    const queue = [{ index: 1, attempt: 1 }];
    expect(leasesIn(open({ nowMs: 0, groups: { 4: { ...groupsOf(4, 0), queue } } }))).toEqual([["r0", 1]]);
  });

  it("gets less where it is slower than the others, half a chunk at least where it is not", () => {
    const pace = (id: string, msPerGroup: number, state: ControllerState) => ({
      ...{ incarnation: state.members[id]?.incarnation ?? "", msPerGroup, steps: [], isReported: false },
    });
    const plan = planWith({ groupsPerStep: 100, limits });
    const state = working({ plan, members: ["p0", "r0", "r1", "r2"], patch: { groups: { 4: groupsOf(4, 0, 100) } } });
    const paces = { r0: pace("r0", 40, state), r1: pace("r1", 10, state), r2: pace("r2", 10, state) };
    expect(leasesIn({ ...state, paces })).toEqual([
      ["r0", 2],
      ["r1", 8],
      ["r2", 8],
    ]);
    const few = working({ plan, members: ["p0", "r0", "r1"], patch: { groups: { 4: groupsOf(4, 90, 100) } } });
    expect(leasesIn(few)).toEqual([
      ["r0", 4],
      ["r1", 4],
    ]);
  });

  it("is told what is resumed, with the tokens that were saved of it", () => {
    const queue = [
      { index: 0, attempt: 0, last: "r9", partial: { streamSeq: 3, tokens: 30 } },
      { index: 1, attempt: 0, last: "r9" },
    ];
    const state = open({ groups: { 4: { ...groupsOf(4, 0), queue } } });
    const resumed = bodiesOf(dispatchGroups(state)?.effects ?? [], "groups.resumed");
    expect(resumed.map(({ tokens }) => tokens).reduce((sum, tokens) => sum + tokens, 0)).toBe(30);
    const evaluation = {
      version: 3,
      queue: [chunk(0), chunk(1)],
      settled: [],
      attempts: { 1: 1 },
      chunks: 2,
      prompts: 0,
      correct: 0,
    };
    const held = dispatchGroups(open({ evaluation, groups: {} }));
    expect(bodiesOf(held?.effects ?? [], "groups.resumed")).toMatchObject([{ items: ["eval.1"], tokens: 0 }]);
  });

  it("is found anew when the limits of a lease change, as when a job replaces another one", () => {
    const lease = (count: number) => ({
      holder: "r0",
      items: Array.from({ length: count }, (_, i) => train(i)),
      dueAtMs,
    });
    const idle = (leasesPerRollout: number, leaseGroupsMax: number, members = ["p0", "r0", "r1"]) => {
      const plan = planWith({ limits: { ...limits, leasesPerRollout, leaseGroupsMax } });
      const state = working({ plan, members, patch: { leases: { "1-1": lease(3) } } });
      return idleSamplers(state, () => true).map(({ id }) => id);
    };
    expect(idle(1, 8)).toEqual(["r1"]);
    expect(idle(2, 8)).toEqual(["r0", "r1"]);
    expect(idle(2, 2)).toEqual(["r1"]);
    expect(idle(2, 8)).toEqual(["r0", "r1"]);
    expect(idle(3, 8, ["p0", "r1"])).toEqual(["r1"]);
    const state = working({ members: ["p0", "r0", "r1"], patch: { leases: { "1-1": lease(3) } } });
    /** Of the same members and leases. */
    const within = (leasesPerRollout: number, leaseGroupsMax: number) => {
      const plan = planWith({ limits: { ...limits, leasesPerRollout, leaseGroupsMax } });
      return idleSamplers({ ...state, plan }, () => true).map(({ id }) => id);
    };
    expect([within(2, 8), within(1, 8), within(2, 8), within(2, 2)]).toEqual([
      ["r0", "r1"],
      ["r1"],
      ["r0", "r1"],
      ["r1"],
    ]);
  });
});

describe("an evaluation that is due", () => {
  const plan = planWith({ evalPrompts: 1, evalEverySteps: 0, steps: 5 });
  const opened = (patch: Partial<ControllerState>, version = 5) =>
    planEvaluation(working({ plan, version, patch: { evaluatedVersion: version - 1, ...patch } }))?.state.evaluation;

  it("may be of a single prompt, and is none before there are weights", () => {
    expect(opened({})?.queue).toEqual([chunk(0, 1)]);
    expect(opened({ weights: null })).toBeUndefined();
    expect(opened({}, 3), "every 0 steps is never but at both ends").toBeUndefined();
  });

  it("comes at the end of a job that only trains, and not before", () => {
    const jobPhase = { phase: "update" } as const;
    expect(opened({ jobPhase })?.chunks).toBe(1);
    expect(opened({ jobPhase }, 0)).toBeUndefined();
    expect(planAdmission(working({ plan, version: 5 }))).toBeNull();
  });
});
