/** Training state in the memory of checkpoint actors: who takes it when, and what it saves when every policy replica is lost. */
import { describe, expect, it } from "vitest";
import { applyElected } from "../src/controller/apply-elected.ts";
import { planCheckpoint } from "../src/controller/checkpoints/plan-checkpoint.ts";
import { goBack, planRestore } from "../src/controller/checkpoints/plan-restore.ts";
import { planEvaluation } from "../src/controller/groups/dispatch-groups.ts";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import { planReleases } from "../src/controller/plan-releases.ts";
import { type ControllerState, initialControllerState, withMember, without } from "../src/controller/state.ts";
import { planMesh } from "../src/controller/step/plan-mesh.ts";
import { applyFailed, applyHeld } from "../src/controller/weights/apply-weights.ts";
import { isBeginningLost, keepersOf, memoryOf, recoveryOf, withoutLater } from "../src/controller/weights/memory.ts";
import type { KeptState, MemberMemory } from "../src/controller/weights/memory-state.ts";
import { isMemoryBehind, planMemory } from "../src/controller/weights/plan-memory.ts";
import { planInitialWeights, planPulls } from "../src/controller/weights/plan-weights.ts";
import { bodiesOf, linesOf, memberOf, planWith, receiptOf, reportFrom, sectionsOf, working } from "./states.ts";

const plan = planWith({ memoryEvery: 1, steps: 9 });
const empty: MemberMemory = { held: null, asked: null, retryAtMs: 0, failures: 0, isTooLarge: false, misses: 0 };
const stateOf = (step: number, lineage = 0): KeptState => ({
  step,
  lineage,
  version: step,
  sections: sectionsOf(step),
});

/** The member keeps the training state after a step, and serves it. */
const keeps = (state: ControllerState, id: string, held: KeptState | null): ControllerState =>
  withMember(state, id, { addresses: [`unix:${id}`], memory: { ...empty, held } });

const job = (patch: Partial<ControllerState> = {}, version = 7): ControllerState =>
  working({ plan, version, members: ["p0", "r0", "c0", "c1"], patch });

/** Seven steps are committed, that of step 2 is durable, every policy replica is lost and p9 is new. */
function lost(held: Readonly<Record<string, KeptState>>, patch: Partial<ControllerState> = {}): ControllerState {
  const steps = [3, 4, 5, 6, 7];
  const history = Object.fromEntries(steps.map((step) => [step, [0, 1, 2, 3].map((index) => receiptOf(step, index))]));
  const ledger = { admitted: 56, trained: 56, aborted: 0, quarantined: 0 };
  const saved = { step: 2, version: 2, path: "/c/2", host: "h" };
  const checkpoints = { wantedStep: null, dueAtMs: 0, saved, failures: 0 };
  const base = job({ history, ledger, checkpoints, ...patch });
  const kept = Object.entries(held).reduce((state, [id, what]) => keeps(state, id, what), base);
  return { ...kept, members: { ...without(kept.members, "p0"), p9: memberOf("p9", 9) } };
}

const taken = (state: ControllerState, from: string, step: number, flavour = "a"): ControllerState => {
  const body = { lineage: 0, version: step, sections: sectionsOf(step, flavour), addresses: ["unix:x"] };
  return applyHeld(
    state,
    reportFrom(state, from, { kind: "weights.held", body: { ...body, bytes: 16, durationMs: 1 } }),
  ).state;
};

const fails = (
  state: ControllerState,
  from: string,
  body: { lineage: number; version: number; isTooLarge?: boolean },
) => applyFailed(state, reportFrom(state, from, { kind: "weights.failed", body: { cause: "no route", ...body } }));

describe("taking the training state into memory", () => {
  it("is ordered from every free checkpoint actor after a commit, from the policy replicas that hold it", () => {
    const change = planMemory(job());
    expect(linesOf(change?.effects ?? [])).toEqual(["c0 weights.pull", "c1 weights.pull"]);
    const [body] = bodiesOf(change?.effects ?? [], "weights.pull");
    expect(body).toMatchObject({ lineage: 0, version: 7, sections: sectionsOf(7), holders: [{ id: "p0" }] });
    expect(planMemory(change?.state as ControllerState)).toBeNull();
  });

  it("hinders no checkpoint, and a checkpoint does not hinder it", () => {
    const asked = planMemory(job())?.state as ControllerState;
    const wanted = { ...asked.checkpoints, wantedStep: 7 };
    const saving = planCheckpoint({ ...asked, checkpoints: wanted });
    expect(linesOf(saving?.effects ?? [])).toEqual(["c0 checkpoint.save", "c1 checkpoint.save"]);
    const order = saving?.state.members.c0?.order ?? null;
    expect(linesOf(planMemory(withMember(job(), "c0", { order }))?.effects ?? [])).toContain("c0 weights.pull");
  });

  it("is ordered when what is kept is older than the newest multiple of checkpoint.memory_every", () => {
    const every = (memoryEvery: number, held: number | null) => {
      const state = { ...job(), plan: { ...plan, memoryEvery } };
      const kept = held === null ? state : keeps(keeps(state, "c0", stateOf(held)), "c1", stateOf(held));
      return linesOf(planMemory(kept)?.effects ?? []).length;
    };
    expect([every(3, 5), every(3, 6), every(3, 7), every(3, null), every(1, 6), every(0, null)]).toEqual([
      2, 0, 0, 2, 2, 0,
    ]);
  });

  it("is asked of nobody who is ill, leaves, or failed a moment ago, and of nobody when the job ends", () => {
    const ill = withMember(withMember(job(), "c0", { health: "suspect" }), "c1", { health: "draining" });
    expect(planMemory(ill)).toBeNull();
    const failed = fails(planMemory(job())?.state as ControllerState, "c0", { lineage: 0, version: 7 }).state;
    expect(linesOf(planMemory(taken(failed, "c1", 7))?.effects ?? [])).toEqual([]);
    const later = { ...failed, nowMs: failed.nowMs + plan.timing.commandMs };
    expect(linesOf(planMemory(later)?.effects ?? [])).toEqual(["c0 weights.pull"]);
    expect(planMemory(job({ ending: { outcome: "done", reason: "", announced: false } }))).toBeNull();
  });

  it("counts when the digests are those that were ordered; others raise the alarm and are not kept", () => {
    const asked = planMemory(job())?.state as ControllerState;
    expect(memoryOf(taken(asked, "c0", 7).members.c0 ?? memberOf("c0", 1))).toMatchObject({ held: { step: 7 } });
    const wrong = taken(asked, "c0", 7, "b");
    expect(wrong.members.c0?.memory).toMatchObject({ held: null, asked: null, failures: 1 });
  });

  it("counts for nothing when another version was asked for", () => {
    const asked = planMemory(job())?.state as ControllerState;
    const other = taken(asked, "c0", 6);
    expect(other.dropped.stale).toBe(1);
    expect(other.members.c0?.memory).toEqual(asked.members.c0?.memory);
  });

  it("counts for nothing when it was not asked for, or not any more", () => {
    const state = job();
    expect(taken(state, "c0", 7)).toEqual({ ...state, dropped: { ...state.dropped, stale: 1 } });
    const asked = planMemory(job())?.state as ControllerState;
    const back = goBack(asked, "so").state;
    expect(taken(back, "c0", 7).members.c0?.memory?.held).toBeNull();
  });

  it("that did not work is said once, and again only after it worked", () => {
    const asked = planMemory(job())?.state as ControllerState;
    const first = fails(asked, "c0", { lineage: 0, version: 7 });
    expect(linesOf(first.effects)).toEqual(["! alarm.raised"]);
    const again = planMemory({ ...first.state, nowMs: first.state.nowMs + 5_000 })?.state as ControllerState;
    expect(fails(again, "c0", { lineage: 0, version: 7 }).effects).toEqual([]);
  });

  it("that did not work is asked for again after a fifth of the time for an answer, twice that, and so on up to 64 times", () => {
    let state = working({ plan, version: 7, members: ["p0", "r0", "c0"] });
    for (const times of [1, 2, 4, 8, 16, 32, 64, 64]) {
      const asked = planMemory(state)?.state as ControllerState;
      const { members, nowMs } = fails(asked, "c0", { lineage: 0, version: 7 }).state;
      const { retryAtMs = 0 } = members.c0?.memory ?? {};
      expect(retryAtMs - nowMs).toBe((times * plan.timing.commandMs) / 5);
      expect(planMemory({ ...asked, members, nowMs: retryAtMs - 1 })).toBeNull();
      state = { ...asked, members, nowMs: retryAtMs };
    }
  });

  it("that has no room is said with its cause, and not asked for again for ten minutes", () => {
    const asked = planMemory(job())?.state as ControllerState;
    const refused = fails(asked, "c0", { lineage: 0, version: 7, isTooLarge: true });
    expect(bodiesOf(refused.effects, "alarm.raised")).toEqual([
      { alarm: "memory-copy", detail: "c0 keeps no training state in memory: no route" },
    ]);
    const at = (ms: number) => linesOf(planMemory({ ...refused.state, nowMs: 1_000 + ms })?.effects ?? []);
    expect(at(590_000)).not.toContain("c0 weights.pull");
    expect(
      linesOf(planMemory(planMemory({ ...refused.state, nowMs: 601_000 })?.state as ControllerState)?.effects ?? []),
    ).toContain("c0 weights.pull");
  });

  it("is ordered again from who did not answer, and by the next controller", () => {
    const asked = planMemory(job())?.state as ControllerState;
    const due = planMemory({ ...asked, nowMs: 60_000 })?.state as ControllerState;
    expect(due.members.c0?.memory).toMatchObject({ asked: null, failures: 1 });
    expect(due.members.c0?.unanswered).toBe(0);
    const elected = applyElected(asked, { type: "controller.elected", atMs: 5, term: 2 }).state;
    expect(linesOf(planMemory(elected)?.effects ?? [])).toEqual(["c0 weights.pull", "c1 weights.pull"]);
  });
});

describe("the loss of every policy replica", () => {
  it("costs nothing when a checkpoint actor has the committed version: whoever comes pulls all of it from there", () => {
    const state = lost({ c0: stateOf(7) });
    expect(planRestore(state)).toBeNull();
    const [pull] = bodiesOf(planPulls(state)?.effects ?? [], "weights.pull");
    expect(pull).toMatchObject({ lineage: 0, version: 7, holders: [{ id: "c0", addresses: ["unix:c0"] }] });
    expect(pull?.sections.map(({ name }) => name)).toEqual(["weights", "optimizer"]);
  });

  it("makes a new mesh of whoever comes, also under the id of who was lost", () => {
    const base = lost({ c0: stateOf(7) });
    const back = memberOf("p0", 9, { held: { lineage: 0, version: 7 } });
    const change = planMesh({ ...base, members: { ...without(base.members, "p9"), p0: back } });
    expect(bodiesOf(change?.effects ?? [], "mesh.build")).toMatchObject([
      { epoch: 3, members: [{ id: "p0", incarnation: back.incarnation }] },
    ]);
  });

  it("gives rollout replicas their weights from memory, too, when nobody else has them", () => {
    const state = withMember(lost({ c0: stateOf(7) }), "r0", { held: null });
    const [, rollout] = bodiesOf(planPulls(state)?.effects ?? [], "weights.pull");
    expect(rollout).toMatchObject({ holders: [{ id: "c0" }], sections: [{ name: "weights" }] });
  });

  it("goes back to the newest that is kept when that is older, and trains only the steps since again", () => {
    const { state, effects } = planRestore(lost({ c0: stateOf(5), c1: stateOf(6) })) ?? { state: job(), effects: [] };
    expect(bodiesOf(effects, "alarm.raised")[0]?.detail).toBe(
      "no policy replica holds version 7; going back to step 6, kept in memory, in lineage 1",
    );
    expect(state.step.step).toBe(7);
    expect(Object.keys(state.history)).toEqual(["3", "4", "5", "6"]);
    expect(Object.keys(state.groups)).toEqual(["7"]);
    expect(state.checkpoints.saved?.step).toBe(2);
    expect(imbalanceOf(ledgerOf(state))).toBe(0);
    const [body] = bodiesOf(planInitialWeights(state)?.effects ?? [], "weights.initialize");
    expect(body).toEqual({
      lineage: 1,
      version: 6,
      source: {
        kind: "memory",
        lineage: 0,
        version: 6,
        sections: sectionsOf(6),
        holders: [{ id: "c1", addresses: ["unix:c1"] }],
      },
    });
  });

  it("can come again before anybody has begun with that: an older one is as good, and nothing behind it is remembered", () => {
    const back = planRestore(lost({ c0: stateOf(5), c1: stateOf(6) }))?.state as ControllerState;
    const alone = { ...back, members: without(back.members, "c1") };
    const again = planRestore(alone)?.state as ControllerState;
    expect(again.restore).toMatchObject({ lineage: 2, version: 5, source: { kind: "memory", lineage: 0, version: 5 } });
    expect(Object.keys(again.groups)).toEqual(["6", "7"]);
    expect(imbalanceOf(ledgerOf(again))).toBe(0);
    const none = planRestore({ ...again, members: without(again.members, "c0") })?.state as ControllerState;
    expect(none.restore).toMatchObject({ lineage: 3, source: { kind: "checkpoint", path: "/c/2" } });
    expect(none.history).toEqual({});
  });

  it("goes back to a checkpoint that is newer than what is kept, and to one of another life", () => {
    expect(planRestore(lost({ c0: stateOf(1) }))?.state.restore.source).toEqual({ kind: "checkpoint", path: "/c/2" });
    expect(planRestore(lost({}))?.state.restore.source).toEqual({ kind: "checkpoint", path: "/c/2" });
  });

  it("waits for a version that somebody healthy is about to have, and for a suspect that has the best", () => {
    const near = { ...empty, held: stateOf(6), asked: { ...stateOf(7), dueAtMs: 2_000 } };
    const state = withMember(lost({ c0: stateOf(6) }), "c0", { memory: near });
    expect(planRestore(state)).toBeNull();
    expect(planRestore(withMember(state, "c0", { health: "suspect" }))).toBeNull();
    expect(planRestore({ ...state, members: without(state.members, "c0") })).not.toBeNull();
    const other = keeps(withMember(state, "c0", { health: "suspect" }), "c1", stateOf(5));
    expect(planRestore(other)?.state.restore).toMatchObject({ version: 5 });
  });

  it("stops counting on memory that policy replicas can not get, after three times in a row", () => {
    let state = lost({ c0: stateOf(7) });
    for (let time = 1; time <= 3; time++) {
      expect(planRestore(state)).toBeNull();
      const asked = planPulls(withMember(state, "p9", { retryAtMs: 0 }))?.state as ControllerState;
      state = fails(asked, "p9", { lineage: 0, version: 7 }).state;
    }
    expect(state.members.c0?.memory).toMatchObject({ held: null, misses: 0 });
    expect(planRestore(state)?.state.restore.source).toEqual({ kind: "checkpoint", path: "/c/2" });
  });

  it("does so as well when a lineage is to begin with it", () => {
    let state = planRestore(lost({ c0: stateOf(6) }))?.state as ControllerState;
    for (let time = 1; time <= 3; time++) {
      const asked = planInitialWeights(withMember(state, "p9", { retryAtMs: 0 }))?.state as ControllerState;
      state = fails(asked, "p9", { lineage: 1, version: 6 }).state;
    }
    expect(planRestore(state)?.state.restore).toMatchObject({ lineage: 2, source: { kind: "checkpoint" } });
  });

  it("does not purge: what is kept in memory is not durable", () => {
    const asked = planMemory(job({ history: { 7: [receiptOf(7, 0)] } }))?.state as ControllerState;
    const kept = taken(asked, "c0", 7);
    expect(Object.keys(kept.history)).toEqual(["7"]);
    expect(kept.checkpoints.saved).toBeNull();
  });
});

describe("going back because the weights are doubted", () => {
  it("goes to a checkpoint, and forgets what is kept behind it", () => {
    const { state } = goBack(lost({ c0: stateOf(7), c1: stateOf(2) }), "not finite");
    expect(state.restore.source).toEqual({ kind: "checkpoint", path: "/c/2" });
    expect(state.members.c0?.memory?.held).toBeNull();
    expect(state.members.c1?.memory?.held).toMatchObject({ step: 2 });
  });
});

describe("what was evaluated", () => {
  it("of versions that are left behind does not stand for those of the new line, and the rest does", () => {
    const back = (evaluatedVersion: number) => goBack(lost({}, { evaluatedVersion }), "so").state.evaluatedVersion;
    expect([back(7), back(2), back(1), back(-1)]).toEqual([2, 2, 1, -1]);
    const kept = planRestore(lost({ c0: stateOf(5) }, { evaluatedVersion: 7 }))?.state;
    expect(kept?.evaluatedVersion).toBe(5);
  });

  it("is asked of the new line by leases of its own", () => {
    const evaluated = planWith({ steps: 9, evalPrompts: 100, evalEverySteps: 1 });
    const state = job({ evaluatedVersion: 6, leasesMade: 41 });
    expect(planEvaluation({ ...state, plan: evaluated })?.state.evaluation).toMatchObject({
      version: 7,
      leasesBefore: 41,
    });
  });
});

describe("a checkpoint actor that leaves", () => {
  it("waits for a policy replica to take what nobody else has", () => {
    const leaving = (state: ControllerState) => withMember(state, "c0", { health: "draining" });
    expect(planReleases(leaving(lost({ c0: stateOf(7) })))).toBeNull();
    expect(linesOf(planReleases(leaving(lost({ c0: stateOf(7), c1: stateOf(7) })))?.effects ?? [])).toEqual([
      "c0 replica.stop",
    ]);
    expect(linesOf(planReleases(leaving(keeps(job(), "c0", stateOf(7))))?.effects ?? [])).toEqual(["c0 replica.stop"]);
  });

  it("has its memory written to disk before: a checkpoint needs no policy replica", () => {
    const state = lost({ c0: stateOf(7) });
    const wanted = { ...state.checkpoints, wantedStep: 7 };
    const [save] = bodiesOf(planCheckpoint({ ...state, checkpoints: wanted })?.effects ?? [], "checkpoint.save");
    expect(save?.holders).toEqual([{ id: "c0", addresses: ["unix:c0"] }]);
  });
});

describe("what the job can go back to", () => {
  const disk = 2;
  /** Version 7 is committed, and c0 keeps the state after this step, of this health and address. */
  const keeping = (step: number, patch: object = {}): ControllerState =>
    withMember(lost({ c0: stateOf(step) }), "c0", patch);

  it.each<[string, ControllerState, string]>([
    ["what is newer than the disk is taken from memory", keeping(3), "memory"],
    ["what is as new as the disk as well", keeping(disk), "memory"],
    ["what is older is not", keeping(disk - 1), "disk"],
    ["the committed version is there for whoever comes", keeping(7), "wait"],
    ["nobody is sent to one without an address", keeping(3, { addresses: [] }), "disk"],
    ["a suspect is waited for", keeping(3, { health: "suspect" }), "wait"],
    ["a suspect without an address is not", keeping(3, { health: "suspect", addresses: [] }), "disk"],
  ])("%s", (_, state, kind) => {
    expect(recoveryOf(state).kind).toBe(kind);
  });

  it("is the newest of several, and not what a suspect has", () => {
    const state = lost({ c0: stateOf(3), c1: stateOf(5) });
    expect(recoveryOf(state)).toMatchObject({ kind: "memory", kept: { step: 5 } });
    expect(recoveryOf(withMember(state, "c1", { health: "suspect" }))).toMatchObject({ kept: { step: 3 } });
  });

  it("is nothing behind the step that it goes back to, and what was asked for is forgotten", () => {
    const held = (step: number): number | undefined =>
      memoryOf(withoutLater(keeping(5), step).members.c0 ?? memberOf("c0", 1)).held?.step;
    expect([4, 5, 6].map(held)).toEqual([undefined, 5, 5]);
    const same = keeping(5);
    expect(withoutLater(same, 5)).toBe(same);
    const asked = { ...stateOf(7), dueAtMs: 1 };
    const asking = withMember(same, "c0", { memory: { ...empty, held: stateOf(5), asked } });
    expect(memoryOf(withoutLater(asking, 5).members.c0 ?? memberOf("c0", 1))).toMatchObject({
      held: { step: 5 },
      asked: null,
    });
  });

  it("is lost when nobody keeps what a lineage was to begin with, and not before", () => {
    const source = { kind: "memory" as const, ...stateOf(3) };
    const begins = (state: ControllerState, patch: object = {}): boolean =>
      isBeginningLost({ ...state, weights: null, restore: { ...state.restore, source: source as never }, ...patch });
    expect(begins(keeping(3))).toBe(false);
    expect(begins(keeping(4))).toBe(true);
    expect(begins(keeping(4), { weights: keeping(4).weights })).toBe(false);
  });
});

describe("what is kept in memory", () => {
  const withMemory = (memory: Partial<MemberMemory>, state = job()): ControllerState =>
    withMember(state, "c0", { memory: { ...empty, ...memory } });
  const memoryIn = (state: ControllerState): MemberMemory => memoryOf(state.members.c0 ?? memberOf("c0", 1));
  const asked = (step: number) => ({ ...stateOf(step), dueAtMs: 9_000 });
  const pulls = (state: ControllerState): readonly string[] => linesOf(planMemory(state)?.effects ?? []);

  it("is of the lineage of the job, and begins with the first step that is committed", () => {
    expect(pulls(keeps(job(), "c0", stateOf(7, 5)))).toContain("c0 weights.pull");
    expect(pulls(keeps(job(), "c0", stateOf(7)))).not.toContain("c0 weights.pull");
    expect([pulls(job({}, 0)), pulls(job({}, 1))]).toEqual([[], ["c0 weights.pull", "c1 weights.pull"]]);
  });

  it("is nothing of who never took anything, and is had from who serves it and is no suspect", () => {
    expect(memoryOf(memberOf("c0", 1))).toEqual(empty);
    const state = keeps(job(), "c0", stateOf(7));
    const keepers = (patch: object = {}) => keepersOf(withMember(state, "c0", patch), stateOf(7)).map(({ id }) => id);
    expect([keepers(), keepers({ health: "suspect" }), keepers({ addresses: [] })]).toEqual([["c0"], [], []]);
    expect(keepersOf(state, stateOf(6))).toEqual([]);
  });

  it("is forgotten of nobody who has nothing, however far the job goes back", () => {
    const state = job();
    expect(withoutLater(state, 0)).toBe(state);
  });

  it("has nothing against it any more once it is there", () => {
    const state = withMemory({ asked: asked(7), failures: 3, isTooLarge: true, misses: 2, retryAtMs: 5 });
    expect(memoryIn(taken(state, "c0", 7))).toEqual({ ...empty, held: stateOf(7), retryAtMs: 5 });
  });

  it("with other digests than were ordered is told of", () => {
    const state = withMemory({ asked: asked(7) });
    const body = { lineage: 0, version: 7, sections: sectionsOf(7, "b"), addresses: [], bytes: 16, durationMs: 1 };
    const { effects } = applyHeld(state, reportFrom(state, "c0", { kind: "weights.held", body }));
    expect(bodiesOf(effects, "alarm.raised")).toMatchObject([{ alarm: "digest" }]);
  });

  it("is missed aloud where the newest could not be taken for the first time, or there was no room for the first time", () => {
    const alarms = (memory: Partial<MemberMemory>, version: number, isTooLarge = false) =>
      bodiesOf(fails(withMemory(memory), "c0", { lineage: 0, version, isTooLarge }).effects, "alarm.raised").length;
    expect([alarms({ asked: asked(7) }, 7), alarms({ asked: asked(7), failures: 1 }, 7)]).toEqual([1, 0]);
    expect([alarms({ asked: asked(6) }, 6), alarms({ asked: asked(7) }, 6)]).toEqual([0, 0]);
    expect([alarms({ asked: asked(6) }, 6, true), alarms({ asked: asked(7), isTooLarge: true }, 7, true)]).toEqual([
      1, 0,
    ]);
    expect(memoryIn(fails(withMemory({ asked: asked(6) }), "c0", { lineage: 0, version: 6 }).state)).toMatchObject({
      ...{ asked: null, failures: 1, isTooLarge: false },
    });
  });

  it("is blamed for a pull of that version only, and not while a trainer has it as well", () => {
    const misses = (state: ControllerState, from: string, version: number) =>
      memoryIn(fails(state, from, { lineage: 0, version }).state).misses;
    expect(misses(lost({ c0: stateOf(7) }), "p9", 7)).toBe(1);
    expect(misses(lost({ c0: stateOf(7) }), "p9", 6)).toBe(0);
    expect(misses(lost({ c0: stateOf(7) }), "p9", 0), "where the job began").toBe(0);
    const beginning = planRestore(lost({ c0: stateOf(6) }))?.state as ControllerState;
    const missed = (version: number) =>
      memoryIn(fails(beginning, "p9", { lineage: beginning.restore.lineage, version }).state).misses;
    expect([missed(6), missed(5)]).toEqual([1, 0]);
    expect(misses(keeps(job(), "c0", stateOf(7)), "r0", 7)).toBe(0);
    const third = fails(keeps(lost({ c0: stateOf(7) }), "c0", stateOf(7)), "p9", { lineage: 0, version: 7 });
    expect(memoryIn(third.state)).toMatchObject({ held: { step: 7 }, misses: 1 });
  });

  it("is behind until it is asked for or there, of who stays and has room", () => {
    const behind = (memory: Partial<MemberMemory>, patch: object = {}): boolean => {
      const state = withMember(withMemory(memory), "c0", patch);
      return isMemoryBehind(state, state.members.c0 ?? memberOf("c0", 1));
    };
    expect([behind({}), behind({ held: stateOf(6) }), behind({ held: stateOf(7) })]).toEqual([true, true, false]);
    expect([behind({ asked: asked(7) }), behind({ held: stateOf(7), asked: asked(6) })]).toEqual([false, true]);
    expect([behind({}, { health: "draining" }), behind({}, { order: { kind: "replica.stop", dueAtMs: 1 } })]).toEqual([
      ...[false, false],
    ]);
    const full = { isTooLarge: true, retryAtMs: 1_001 };
    expect([behind(full), behind({ ...full, retryAtMs: 1_000 }), behind({ ...full, isTooLarge: false })]).toEqual([
      ...[false, true, true],
    ]);
  });
});

it("a state of before knows of no memory", () => {
  expect(planRestore({ ...initialControllerState(plan) })).toBeNull();
});
