/** Facts into the tables: what repeats changes nothing, what is stale is dropped and counted. */
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { applySaved, applySaveFailed } from "../src/controller/checkpoints/apply-checkpoint.ts";
import { applyEvaluated } from "../src/controller/groups/apply-evaluation.ts";
import { applyCompleted, applyReturned } from "../src/controller/groups/apply-groups.ts";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import { type ControllerState, type Member, withMember } from "../src/controller/state.ts";
import { applyBuilt, applyMeshFailed, applyVoted } from "../src/controller/step/apply-step.ts";
import { applyFailed, applyHeld } from "../src/controller/weights/apply-weights.ts";
import {
  bodiesOf,
  groupsOf,
  linesOf,
  planWith,
  receiptOf,
  reportFrom,
  sectionsOf,
  stepping,
  working,
} from "./states.ts";

const train = (index: number, step = 4) => ({ purpose: "train" as const, step, index, attempt: 0 });

describe("weights.held", () => {
  const pull: Member["order"] = { kind: "weights.pull", lineage: 0, version: 3, dueAtMs: 9_000 };
  const heldBy = (
    state: ControllerState,
    from: string,
    version: number,
    patch: { lineage?: number; flavour?: string; sections?: Body<"weights.held">["sections"] } = {},
  ) =>
    applyHeld(
      state,
      reportFrom(state, from, {
        kind: "weights.held",
        body: {
          lineage: patch.lineage ?? 0,
          version,
          sections: patch.sections ?? sectionsOf(version, patch.flavour),
          addresses: [`unix:${from}`],
          bytes: 1,
          durationMs: 1,
        },
      }),
    );

  it("makes its sender a holder and answers its order", () => {
    const state = withMember(working(), "r0", { held: null, order: pull, unanswered: 2 });
    expect(heldBy(state, "r0", 3).state.members.r0).toMatchObject({
      held: { lineage: 0, version: 3 },
      order: null,
      unanswered: 0,
      addresses: ["unix:r0"],
    });
  });

  it("answers no order but its own", () => {
    const owing = withMember(working({ version: 4 }), "r0", { held: null, order: { ...pull, version: 4 } });
    expect(heldBy(owing, "r0", 3).state.members.r0?.order).not.toBeNull();
    const leaving = withMember(working({ version: 0 }), "r0", {
      order: { kind: "replica.stop", dueAtMs: 9_000 },
    });
    expect(heldBy(leaving, "r0", 0).state.members.r0?.order?.kind).toBe("replica.stop");
  });

  it("of a version that is not committed counts for nothing: once it is, nobody would compare its digest", () => {
    for (const early of [
      heldBy(working(), "p0", 4, { flavour: "b" }),
      heldBy(working({ patch: { weights: null } }), "p0", 4),
    ]) {
      expect(early.state.members.p0?.held).toEqual({ lineage: 0, version: 3 });
      expect(early.state.dropped.stale).toBe(1);
    }
  });

  it("counts for all that its sender must have: a trainer everything, a sampler the weights, and nobody nothing", () => {
    const [weights, optimizer] = sectionsOf(3);
    const without = (from: string, sections: Body<"weights.held">["sections"]) =>
      heldBy(withMember(working(), from, { held: null }), from, 3, { sections }).state.members[from]?.held;
    if (!weights || !optimizer) throw new Error("a version has two sections");
    expect([without("p0", [weights, optimizer]), without("r0", [weights])]).toEqual([
      { lineage: 0, version: 3 },
      { lineage: 0, version: 3 },
    ]);
    const lies = [without("p0", [weights]), without("r0", [optimizer]), without("r0", []), without("p0", [])];
    expect(lies).toEqual([null, null, null, null]);
    expect(without("p0", [weights, optimizer, { ...weights, digest: "x" }])).toBeNull();
  });

  it("twice changes nothing the second time", () => {
    const once = heldBy(withMember(working(), "r0", { held: null, order: pull }), "r0", 3).state;
    expect(heldBy(once, "r0", 3).state).toEqual({ ...once, members: { ...once.members } });
  });

  it("that was overtaken, by a newer version or a new lineage, is dropped and counted", () => {
    const newer = withMember(working({ version: 5 }), "r0", { held: { lineage: 0, version: 5 } });
    const late = heldBy(newer, "r0", 4);
    expect(late.state).toEqual({ ...newer, dropped: { duplicate: 0, stale: 1 } });
    const restore = { lineage: 1, version: 3, source: newer.restore.source };
    const initialize: Member["order"] = { kind: "weights.initialize", lineage: 0, version: 3, dueAtMs: 9_000 };
    const restoring = withMember({ ...newer, weights: null, restore }, "p0", { held: null, order: initialize });
    expect(heldBy(restoring, "p0", 3).state).toEqual({ ...restoring, dropped: { duplicate: 0, stale: 1 } });
  });

  it("of who was asked to make them gives the initial weights; of nobody else", () => {
    const none = working({ version: 0, patch: { weights: null } });
    const asked = withMember(none, "p0", {
      held: null,
      order: { kind: "weights.initialize", lineage: 0, version: 0, dueAtMs: 9_000 },
    });
    expect(heldBy(asked, "p0", 0).state.weights).toEqual({ lineage: 0, version: 0, sections: sectionsOf(0) });
    expect(heldBy(none, "p0", 0).state.weights).toBeNull();
    expect(heldBy(asked, "p0", 5).state.weights).toBeNull();
  });

  it("with another digest than the committed one raises an alarm and makes nobody a holder", () => {
    const { state, effects } = heldBy(withMember(working(), "p1", { order: pull }), "p1", 3, { flavour: "b" });
    expect(state.members.p1).toMatchObject({ held: null, order: null });
    expect(bodiesOf(effects, "alarm.raised")[0]?.alarm).toBe("digest");
  });
});

describe("weights.failed", () => {
  const failed = (state: ControllerState, version: number) =>
    applyFailed(
      state,
      reportFrom(state, "r0", { kind: "weights.failed", body: { lineage: 0, version, cause: "no route" } }),
    );
  const owing = withMember(working(), "r0", {
    order: { kind: "weights.pull", lineage: 0, version: 3, dueAtMs: 9_000 },
  });

  it("has its sender asked again after a pause", () => {
    const { state, effects } = failed(owing, 3);
    expect(state.members.r0).toMatchObject({ order: null, retryAtMs: 1_200 });
    expect(linesOf(effects)).toEqual(["! alarm.raised"]);
  });

  it("of an older version leaves the order as it is", () => {
    expect(failed(owing, 2).state).toBe(owing);
  });
});

describe("mesh.built", () => {
  const building = (): ControllerState => ({ ...working(), mesh: { ...working().mesh, state: "building", built: [] } });
  const built = (state: ControllerState, from: string, epoch = 2) =>
    applyBuilt(state, reportFrom(state, from, { kind: "mesh.built", body: { epoch } }));

  it("of every member makes the mesh ready, once each", () => {
    const one = built(building(), "p1");
    expect(one.state.mesh).toMatchObject({ state: "building", built: ["p1"] });
    expect(built(one.state, "p1").state).toBe(one.state);
    const all = built(one.state, "p0");
    expect(all.state.mesh.state).toBe("ready");
    expect(bodiesOf(all.effects, "mesh.changed")).toEqual([{ epoch: 2, members: ["p0", "p1"] }]);
  });

  it("of another epoch changes nothing", () => {
    const state = building();
    expect(built(state, "p1", 1).state).toBe(state);
    expect(built(state, "p1", 3).state).toBe(state);
  });

  it("is overtaken by mesh.failed of the same epoch, not of another", () => {
    const state = building();
    const failed = (epoch: number) =>
      applyMeshFailed(
        state,
        reportFrom(state, "p0", { kind: "mesh.failed", body: { epoch, cause: "late", missing: [] } }),
      );
    expect(failed(2).state.mesh).toMatchObject({ state: "broken", dueAtMs: 1_200 });
    expect(failed(1)).toEqual({ state, effects: [] });
  });
});

describe("groups.completed", () => {
  const leases = { "1-1": { holder: "r0", items: [train(0), train(1)], dueAtMs: 9_000 } };
  const start = (patch: Partial<ControllerState> = {}): ControllerState =>
    working({
      patch: {
        groups: {
          4: {
            ...groupsOf(4, 0),
            queue: [
              { index: 2, attempt: 0 },
              { index: 3, attempt: 0 },
            ],
          },
        },
        leases,
        ledger: { admitted: 8, trained: 0, aborted: 0, quarantined: 0 },
        ...patch,
      },
    });
  const completed = (state: ControllerState, receipts: ReturnType<typeof receiptOf>[], leaseId = "1-1") =>
    applyCompleted(
      state,
      reportFrom(state, "r0", { kind: "groups.completed", body: { leaseId, receipts, causes: [], durationMs: 1 } }),
    );

  it("settles its groups and takes them off the lease", () => {
    const { state } = completed(start(), [receiptOf(4, 0)]);
    expect(Object.keys(state.groups[4]?.receipts ?? {})).toEqual(["0"]);
    expect(state.leases["1-1"]?.items).toEqual([train(1)]);
    expect(completed(state, [receiptOf(4, 1)]).state.leases).toEqual({});
    expect(imbalanceOf(ledgerOf(state))).toBe(0);
  });

  it("counts in what groups usually take, each of them once", () => {
    const { state } = completed(start(), [receiptOf(4, 0), receiptOf(4, 1, { tokens: 9 })]);
    expect(state.sampled).toEqual({ groups: 2, tokens: 14 });
  });

  it("twice counts once: the first result of a group wins", () => {
    const once = completed(start(), [receiptOf(4, 0)]).state;
    const again = completed(once, [receiptOf(4, 0, { streamSeq: 999 })]).state;
    expect(again.groups).toEqual(once.groups);
    expect(again.dropped).toEqual({ duplicate: 1, stale: 0 });
  });

  it("of a group that waits again takes it out of the queue", () => {
    const had = (former: Record<string, string[]>) =>
      start({ leases: {}, groups: { 4: { ...groupsOf(4, 0), queue: waiting, former } } });
    const waiting = [2, 3].map((index) => ({ index, attempt: 0 }));
    const { state } = completed(had({ 2: ["r0"] }), [receiptOf(4, 2)], "9-9");
    expect(state.groups[4]?.queue.map(({ index }) => index)).toEqual([3]);
    const never = completed(had({ 2: ["r1"] }), [receiptOf(4, 2)], "9-9").state;
    expect([never.groups[4]?.queue.length, never.dropped.unasked]).toEqual([2, 1]);
  });

  it("of a step that is over, or of a quarantined group, is dropped and counted", () => {
    expect(completed(start(), [receiptOf(3, 0)]).state.dropped.duplicate).toBe(1);
    const quarantined = start({ groups: { 4: { queue: [], receipts: {}, quarantined: [0] } } });
    expect(completed(quarantined, [receiptOf(4, 0)]).state.groups[4]?.receipts).toEqual({});
  });

  it.each([0, 1, 2, 3, 4])(
    "older than staleness %i allows is dropped, counted, and its group waits again",
    (stalenessMax) => {
      const plan = planWith({ stalenessMax, steps: 90 });
      const state = working({ plan, version: 9, patch: { groups: { 10: { ...groupsOf(10, 0), queue: [] } } } });
      const leased = { ...state, leases: { "1-1": { holder: "r0", items: [train(0, 10)], dueAtMs: 9_000 } } };
      const kept = completed(leased, [receiptOf(10, 0, { version: 9 - stalenessMax })]).state;
      expect(kept.groups[10]?.receipts[0]).toBeDefined();
      const late = completed(leased, [receiptOf(10, 0, { version: 9 - stalenessMax - 1 })]).state;
      expect(late.groups[10]).toMatchObject({ receipts: {}, queue: [{ index: 0, attempt: 0 }] });
      expect(late.dropped.stale).toBe(1);
      expect(late.leases).toEqual({});
    },
  );

  it("whose tokens may be purged by now is dropped, and its group waits again", () => {
    const { state } = completed(start({ purgedSeq: 401 }), [receiptOf(4, 0), receiptOf(4, 1)]);
    expect(Object.keys(state.groups[4]?.receipts ?? {})).toEqual(["1"]);
    expect(state.groups[4]?.queue[0]).toEqual({ index: 0, attempt: 0 });
    const piece = receiptOf(4, 1, { firstSeq: 390 });
    expect(completed(start({ purgedSeq: 391 }), [piece]).state.groups[4]?.receipts).toEqual({});
    expect(completed(start({ purgedSeq: 390 }), [piece]).state.groups[4]?.receipts).toHaveProperty("1");
  });

  it("took a day at most, whatever its holder says: one lie does not make it slow for ever", () => {
    const state = start();
    const body = { leaseId: "1-1", receipts: [receiptOf(4, 0)], causes: [], durationMs: Number.MAX_SAFE_INTEGER };
    const { paces } = applyCompleted(state, reportFrom(state, "r0", { kind: "groups.completed", body })).state;
    expect(paces.r0?.msPerGroup).toBe(86_400_000);
  });

  it("tells of aborted trajectories by their cause", () => {
    const state = start();
    const causes = [{ name: "RangeError", message: "no", count: 2 }];
    const body = { leaseId: "1-1", receipts: [receiptOf(4, 0)], causes, durationMs: 1 };
    const { effects } = applyCompleted(state, reportFrom(state, "r0", { kind: "groups.completed", body }));
    expect(bodiesOf(effects, "groups.aborted")).toEqual([{ holder: "r0", ...causes[0] }]);
  });
});

describe("groups.returned", () => {
  const leases = { "1-1": { holder: "r0", items: [train(0), train(1)], dueAtMs: 9_000 } };
  const start = (): ControllerState =>
    working({ members: ["p0", "r0", "r1"], patch: { leases, groups: { 4: { ...groupsOf(4, 0), queue: [] } } } });
  const returned = (state: ControllerState, from: string, items = [train(1)]) =>
    applyReturned(
      state,
      reportFrom(state, from, { kind: "groups.returned", body: { leaseId: "1-1", items, reason: "leaving" } }),
    );

  it("puts what comes back in front of the queue, and gives its sender a pause", () => {
    const { state } = returned(start(), "r0");
    expect(state.leases["1-1"]?.items).toEqual([train(0)]);
    expect(state.groups[4]?.queue).toEqual([{ index: 1, attempt: 0 }]);
    expect(state.members.r0?.retryAtMs).toBe(1_200);
  });

  it("twice, or by somebody else, changes nothing", () => {
    const once = returned(start(), "r0").state;
    const again = returned(once, "r0").state;
    expect({ queue: again.groups[4]?.queue, leases: again.leases }).toEqual({
      queue: once.groups[4]?.queue,
      leases: once.leases,
    });
    const state = start();
    expect(returned(state, "r1").state).toBe(state);
  });

  it("of held-out prompts counts as one failure of its engine, which starts anew after two", () => {
    const item = { purpose: "eval" as const, chunk: 0, from: 0, count: 64 };
    const evaluation = { version: 3, queue: [], settled: [], attempts: {}, chunks: 1, prompts: 0, correct: 0 };
    const isOut = (attempts: number): boolean => {
      const failure = { ...planWith().failure, oom: { action: "restart", attempts, backoffMs: 0 } as const };
      const held = { "1-1": { holder: "r0", items: [item], dueAtMs: 9_000 } };
      const state = working({ plan: planWith({ failure }), patch: { leases: held, evaluation } });
      const body = { leaseId: "1-1", items: [item], reason: "no memory", failure: "oom" as const };
      return !applyReturned(state, reportFrom(state, "r0", { kind: "groups.returned", body })).state.members.r0;
    };
    expect([isOut(1), isOut(2)]).toEqual([true, false]);
  });

  it("gives back nothing that was not leased", () => {
    expect(returned(start(), "r0", [train(3)]).state.groups[4]?.queue).toEqual([]);
  });
});

describe("evals.completed", () => {
  const evaluation = { version: 3, queue: [], settled: [], attempts: {}, chunks: 2, prompts: 0, correct: 0 };
  const evaluated = (state: ControllerState, chunk: number, version = 3) =>
    applyEvaluated(
      state,
      reportFrom(state, "r0", {
        kind: "evals.completed",
        body: { leaseId: "1-1", version, chunk, prompts: 64, correct: 9 },
      }),
    );

  it("counts each chunk once, at its own version only", () => {
    const chunk = (at: number) => ({ purpose: "eval" as const, chunk: at, from: 64 * at, count: 64 });
    const start = working({ patch: { evaluation: { ...evaluation, queue: [chunk(0), chunk(1)] } } });
    const others = { ...start, leases: { "1-1": { holder: "r1", items: [chunk(1)], dueAtMs: 9_000 } } };
    expect(evaluated(others, 1).state.evaluation).toEqual(start.evaluation);
    const shorter = { ...start, evaluation: { ...evaluation, queue: [{ ...chunk(1), count: 9 }] } };
    expect(evaluated(shorter, 1).state.evaluation).toEqual(shorter.evaluation);
    const once = evaluated(start, 1).state;
    expect(once.evaluation).toMatchObject({ settled: [1], prompts: 64, correct: 9 });
    expect(evaluated(once, 1).state.evaluation).toEqual(once.evaluation);
    expect(evaluated(once, 0, 2).state.evaluation).toEqual(once.evaluation);
    expect(evaluated(working(), 0).state.evaluation).toBeNull();
  });

  it("counts on leases of its own evaluation only: those of an earlier one may be of another line with the same versions", () => {
    const chunk = { purpose: "eval" as const, chunk: 1, from: 64, count: 64 };
    const leases = { "1-1": { holder: "r0", items: [chunk], dueAtMs: 9_000 } };
    const of = (leasesBefore: number) =>
      evaluated(working({ patch: { leases, evaluation: { ...evaluation, leasesBefore, queue: [chunk] } } }), 1).state;
    expect(of(1).evaluation).toMatchObject({ settled: [], prompts: 0, correct: 0, queue: [chunk] });
    expect(of(1).leases).toEqual({});
    expect(of(0).evaluation).toMatchObject({ settled: [1], prompts: 64, correct: 9, queue: [] });
  });
});

describe("step.voted", () => {
  const voted = (state: ControllerState, patch: object = {}) =>
    applyVoted(
      state,
      reportFrom(state, "p0", {
        kind: "step.voted",
        body: { step: 4, attempt: 1, epoch: 2, vote: "commit", finite: true, sections: sectionsOf(4), ...patch },
      }),
    ).state;

  it("is kept for the running attempt, and a second word of the same member is not", () => {
    const once = voted(stepping({}));
    expect(once.step.votes.p0).toMatchObject({ vote: "commit", missing: [], cause: "" });
    expect(voted(once, { vote: "abort" })).toBe(once);
  });

  it.each([{ step: 3 }, { attempt: 2 }, { epoch: 1 }])("of another attempt changes nothing: %j", (patch) => {
    const state = stepping({});
    expect(voted(state, patch)).toBe(state);
  });

  it("after the outcome changes nothing", () => {
    const state = working();
    expect(voted(state)).toBe(state);
  });
});

describe("checkpoint.saved", () => {
  const history = { 3: [receiptOf(3, 0)], 4: [receiptOf(4, 0)], 5: [receiptOf(5, 0)] };
  const start = (patch: Partial<ControllerState> = {}): ControllerState =>
    working({
      version: 5,
      members: ["p0", "r0", "c0"],
      patch: { history, checkpoints: { wantedStep: 4, dueAtMs: 0, saved: null, failures: 0 }, ...patch },
    });
  const savedStep = (state: ControllerState, step: number, lineage = 0) =>
    applySaved(
      state,
      reportFrom(state, "c0", {
        kind: "checkpoint.saved",
        body: { step, lineage, version: step, path: `runs/${step}`, manifestDigest: "m", bytes: 1, durationMs: 1 },
      }),
    );

  it("covers the steps up to it, and what they were trained from may go", () => {
    const { state, effects } = savedStep(start(), 4);
    expect(Object.keys(state.history)).toEqual(["5"]);
    expect(state.checkpoints).toMatchObject({ wantedStep: null, saved: { step: 4, path: "runs/4" } });
    expect(effects.at(-1)).toEqual({ type: "groups.purge", beforeSeq: 401 });
    expect(state.purgedSeq).toBe(401);
  });

  it("keeps what an open group or a later step still points to", () => {
    const open = { ...groupsOf(6, 0), receipts: { 0: receiptOf(6, 0, { streamSeq: 350 }) } };
    expect(savedStep(start({ groups: { 6: open } }), 4).effects.at(-1)).toEqual({
      type: "groups.purge",
      beforeSeq: 350,
    });
    const pieces = { ...groupsOf(6, 0), receipts: { 0: receiptOf(6, 0, { streamSeq: 500, firstSeq: 340 }) } };
    expect(savedStep(start({ groups: { 6: pieces } }), 4).state.purgedSeq).toBe(340);
    const later = { ...history, 5: [receiptOf(5, 0, { streamSeq: 320 })] };
    expect(savedStep(start({ history: later }), 4).effects.at(-1)).toEqual({ type: "groups.purge", beforeSeq: 320 });
  });

  it("late, or of a former lineage, changes nothing but the order of its sender", () => {
    const done = savedStep(start(), 4).state;
    expect(savedStep(done, 4)).toEqual({ state: done, effects: [] });
    expect(savedStep(done, 3)).toEqual({ state: done, effects: [] });
    const state = start();
    expect(savedStep(state, 4, 1).state.checkpoints).toEqual(state.checkpoints);
  });

  it("does not forget a later checkpoint that is wanted", () => {
    const state = start({ checkpoints: { wantedStep: 5, dueAtMs: 0, saved: null, failures: 0 } });
    expect(savedStep(state, 4).state.checkpoints.wantedStep).toBe(5);
  });

  it("is replaced by the newest version when writing failed", () => {
    const state = start();
    const body = { step: 4, lineage: 0, version: 4, cause: "disk full" };
    const failed = applySaveFailed(state, reportFrom(state, "c0", { kind: "checkpoint.failed", body }));
    expect(failed.state.checkpoints.wantedStep).toBe(5);
    expect(failed.state.members.c0?.retryAtMs).toBe(1_200);
    expect(linesOf(failed.effects)).toEqual(["! alarm.raised"]);
  });
});
