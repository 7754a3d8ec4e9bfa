/** Receipts that can not be true, and groups that nobody can read: they are sampled again, and the operator hears whose they are. */
import { rewardMax } from "@muster/base";
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { control } from "../src/controller/control.ts";
import { applyCompleted } from "../src/controller/groups/apply-groups.ts";
import { releaseLease } from "../src/controller/groups/leases.ts";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import { sampleUnreadable } from "../src/controller/groups/sound-receipts.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { applyVoted } from "../src/controller/step/apply-step.ts";
import { planStepOutcome } from "../src/controller/step/plan-step.ts";
import { bodiesOf, groupsOf, linesOf, planWith, receiptOf, reportFrom, stepping, voteFor, working } from "./states.ts";

const train = (index: number) => ({ purpose: "train" as const, step: 4, index, attempt: 0 });

describe("a receipt", () => {
  const start = (): ControllerState =>
    working({
      members: ["p0", "r0", "r1"],
      plan: planWith({ maxContext: 64 }),
      patch: {
        groups: { 4: { ...groupsOf(4, 0), queue: [{ index: 3, attempt: 0 }] } },
        leases: {
          "1-1": { holder: "r0", items: [train(0), train(1)], dueAtMs: 9_000 },
          "1-2": { holder: "r1", items: [train(2)], dueAtMs: 9_000 },
        },
        ledger: { admitted: 8, trained: 0, aborted: 0, quarantined: 0 },
      },
    });
  const report = (state: ControllerState, receipts: Body<"groups.completed">["receipts"], leaseId = "1-1") =>
    applyCompleted(
      state,
      reportFrom(state, "r0", { kind: "groups.completed", body: { leaseId, receipts, causes: [], durationMs: 1 } }),
    );

  it.each([
    ["counts more trajectories than a group has", { completed: 3 }, "completed = 3 and aborted = 0"],
    ["counts fewer", { completed: 1 }, "are not the 2 trajectories"],
    ["points to no message", { streamSeq: 0 }, "streamSeq = 0"],
    ["begins behind its end", { firstSeq: 402 }, "firstSeq = 402 is not before streamSeq = 400"],
    ["begins nowhere", { firstSeq: 0 }, "firstSeq = 0 is not before"],
    ["has a reward that is no number", { rewardSum: Number.NaN }, "rewardSum = NaN"],
    ["has a reward beyond all rewards", { rewardSum: 1e308 }, "rewardSum = 1e+308"],
    ["has a reward and no trajectory", { completed: 0, aborted: 2, rewardSum: 1 }, "rewardSum = 1 of 0"],
    ["has more tokens than two contexts", { tokens: 2 ** 53 - 1 }, "have at most 64 each"],
  ])("that %s is refused, its group waits again, and its writer is named", (_, lie, says) => {
    const { state, effects } = report(start(), [receiptOf(4, 0, lie), receiptOf(4, 1)]);
    expect(Object.keys(state.groups[4]?.receipts ?? {})).toEqual(["1"]);
    expect(state.groups[4]?.queue.map(({ index, attempt }) => [index, attempt])).toEqual([
      [0, 0],
      [3, 0],
    ]);
    expect(state.leases["1-1"]).toBeUndefined();
    expect(state.dropped).toEqual({ duplicate: 0, stale: 0, refused: 1 });
    const [alarm] = bodiesOf(effects, "alarm.raised");
    expect(alarm).toMatchObject({ alarm: "receipt", detail: expect.stringContaining("r0 reports group 4.0") });
    expect(alarm?.detail).toContain(says);
    expect(imbalanceOf(ledgerOf(state))).toBe(0);
  });

  it("of the most that can be is believed", () => {
    const { state } = report(start(), [
      receiptOf(4, 0, { tokens: 128, rewardSum: 2 * rewardMax, firstSeq: 1 }),
      receiptOf(4, 1, { rewardSum: -2 * rewardMax, streamSeq: 1, firstSeq: 1 }),
    ]);
    expect(Object.keys(state.groups[4]?.receipts ?? {})).toEqual(["0", "1"]);
    expect(state.dropped.refused).toBeUndefined();
  });

  it("is named with the number of the others that can not be true, and gives its sender a pause", () => {
    const { state, effects } = report(start(), [receiptOf(4, 0, { streamSeq: 0 }), receiptOf(4, 1, { streamSeq: 0 })]);
    expect(bodiesOf(effects, "alarm.raised")[0]?.detail).toMatch(/, and 1 more$/);
    expect(state.members.r0).toMatchObject({ refused: 1, retryAtMs: state.nowMs + state.plan.timing.commandMs / 5 });
    const one = report(start(), [receiptOf(4, 0, { streamSeq: 0 }), receiptOf(4, 1)]);
    expect(bodiesOf(one.effects, "alarm.raised")[0]?.detail).toMatch(/no place in the groups stream$/);
  });

  it("of a group that no step has is refused, and the groups of its lease stay there", () => {
    const { state } = report(start(), [receiptOf(4, 4_000)]);
    expect(state.leases["1-1"]?.items).toEqual([train(0), train(1)]);
    expect(state.groups[4]?.queue.map(({ index }) => index)).toEqual([3]);
  });

  it("for a lease of somebody else is refused, and the lease stays", () => {
    const { state, effects } = report(start(), [receiptOf(4, 2)], "1-2");
    expect(state.leases["1-2"]?.items).toEqual([train(2)]);
    expect(state.groups[4]?.receipts).toEqual({});
    expect(bodiesOf(effects, "alarm.raised")[0]?.detail).toContain("lease 1-2 is of r1");
  });

  it("of an open group that its sender has on no lease counts for nothing, and is told once, twice, four times and so on", () => {
    let state = start();
    let alarms = 0;
    for (let i = 0; i < 100; i++) {
      const next = report(state, [receiptOf(4, 3)], i % 2 === 0 ? "1-1" : "7-7");
      alarms += bodiesOf(next.effects, "alarm.raised").length;
      state = next.state;
    }
    expect([state.dropped.unasked, alarms, state.groups[4]?.receipts]).toEqual([100, 7, {}]);
    expect(state.leases).toEqual(start().leases);
  });

  it("of another step, or of another group of its step, is not on a lease because a group with its number is", () => {
    const other = { ...groupsOf(5, 0), queue: [] };
    const state = { ...start(), groups: { 4: { ...groupsOf(4, 0), queue: [] }, 5: other } };
    const chunk = { purpose: "eval" as const, chunk: 0, from: 0, count: 64 };
    const held = (items: ControllerState["leases"][string]["items"]) => ({
      ...state,
      leases: { "1-1": { holder: "r0", items, dueAtMs: 9_000 } },
    });
    const after = (items: ControllerState["leases"][string]["items"], step: number, index: number) =>
      report(held(items), [receiptOf(step, index, { version: 3 })]).state.dropped.unasked ?? 0;
    expect([after([train(0)], 5, 0), after([train(0)], 4, 1), after([chunk], 4, 0)]).toEqual([1, 1, 1]);
    expect(after([train(0)], 4, 0)).toBe(0);
  });

  it("of a lease that ran out counts from the sampler that had it, whoever has the group now", () => {
    const { state } = releaseLease(start(), "1-1", { reason: "expired", failure: null });
    const moved = { ...state, leases: { "1-9": { holder: "r1", items: [train(0)], dueAtMs: 9_000 } } };
    expect(Object.keys(report(moved, [receiptOf(4, 0)]).state.groups[4]?.receipts ?? {})).toEqual(["0"]);
  });

  const lie = [receiptOf(4, 3, { aborted: 9 })];

  it("that can not be true evicts its sender with the third lease, and another life of it begins anew", () => {
    const twice = report(report(start(), lie, "1-1").state, lie, "1-7");
    expect(twice.state.members.r0?.refused).toBe(2);
    const out = report(twice.state, lie, "1-8");
    expect(out.state.members.r0).toBeUndefined();
    expect(linesOf(out.effects)).toContain("r0 replica.fenced");
    expect(bodiesOf(out.effects, "member.died")[0]).toMatchObject({ by: "engine", silentMs: 0 });
  });

  it("counts against its sender once per lease: a report comes again when its controller died before it was acknowledged", () => {
    const [once, ...again] = [1, 2, 3, 4].reduce<ReturnType<typeof report>[]>(
      (all) => [...all, report(all.at(-1)?.state ?? start(), [...lie, receiptOf(4, 0, { streamSeq: 0 })])],
      [],
    );
    expect(bodiesOf(once?.effects ?? [], "alarm.raised")).toHaveLength(1);
    expect(again.flatMap(({ effects }) => effects)).toEqual([]);
    const last = again.at(-1)?.state;
    expect(last?.members.r0).toMatchObject({ refused: 1, refusedLeases: ["1-1"] });
    expect(last?.dropped).toMatchObject({ refused: 8 });
    expect(last?.groups[4]?.queue.map(({ index }) => index)).toEqual([0, 3]);
  });
});

describe("a batch that nobody can read", () => {
  const unreadable = [
    { streamSeq: 401, groupIds: ["4.1"] },
    { streamSeq: 403, groupIds: ["4.3"] },
  ];
  const refusal = voteFor(4, "a", { vote: "abort", sections: [], cause: "message 401: malformed", unreadable });
  const running = (patch: Partial<ControllerState["step"]> = {}): ControllerState => {
    const state = stepping({ p0: refusal });
    const receipts = { ...state.groups[4]?.receipts, 1: { ...receiptOf(4, 1), by: "r0" } };
    return { ...state, groups: { 4: { ...groupsOf(4, 4), receipts } }, step: { ...state.step, ...patch } };
  };

  it("is sampled again, those groups and no others, with an alarm that names writer and message", () => {
    const change = planStepOutcome(running());
    expect(Object.keys(change?.state.groups[4]?.receipts ?? {})).toEqual(["0", "2"]);
    expect(change?.state.groups[4]?.queue.map(({ index }) => index).sort()).toEqual([1, 3]);
    expect(change?.state.step).toMatchObject({ state: "sampling", attempt: 2, failures: 0, unreadable: 1 });
    expect(change?.state.dropped.unreadable).toBe(2);
    expect(bodiesOf(change?.effects ?? [], "alarm.raised")).toEqual([
      {
        alarm: "unreadable",
        detail:
          "can not be read and sampled again: 4.1 of r0 in message 401, 4.3 of somebody in message 403: message 401: malformed",
      },
    ]);
    expect(imbalanceOf(ledgerOf(change?.state ?? running()))).toBe(0);
  });

  it("names eight of its groups and counts the others", () => {
    const count = 10;
    const plan = planWith({ groupsPerStep: count });
    const parts = Array.from({ length: count }, (_, i) => ({ streamSeq: 400 + i, groupIds: [`4.${i}`] }));
    const detailOf = (named: number) => {
      const state = stepping({ p0: { ...refusal, unreadable: parts.slice(0, named) } }, { plan });
      return bodiesOf(planStepOutcome(state)?.effects ?? [], "alarm.raised")[0]?.detail;
    };
    expect(detailOf(8)).toMatch(/ 4\.7 of somebody in message 407: message 401: malformed$/);
    expect(detailOf(9)).toMatch(/ 4\.7 of somebody in message 407 and 1 more: message 401: malformed$/);
  });

  it("may be a single group, and nothing is told of what no trainer could read when it is sampled again already", () => {
    const told = (parts: object[]) =>
      bodiesOf(sampleUnreadable(running(), parts as never, "malformed").effects, "alarm.raised").length;
    expect([told([unreadable[0] as object]), told([{ streamSeq: 999, groupIds: ["4.1"] }]), told([])]).toEqual([
      1, 0, 0,
    ]);
    const nothing = { ...running(), groups: {} };
    expect(sampleUnreadable(nothing, unreadable, "malformed")).toEqual({ state: nothing, effects: [] });
  });

  it("is known by one vote that names one message", () => {
    const state = stepping({ p0: { ...refusal, unreadable: unreadable.slice(0, 1) } });
    const change = planStepOutcome({ ...state, groups: { 4: groupsOf(4, 4) } });
    expect(change?.state.step).toMatchObject({ failures: 0, unreadable: 1 });
    expect(Object.keys(change?.state.groups[4]?.receipts ?? {})).toEqual(["0", "2", "3"]);
  });

  it("evicts its writer the third time", () => {
    const change = (refused: number) => {
      const state = running();
      const writer = { ...state.members.r0, refused } as NonNullable<ControllerState["members"][string]>;
      return planStepOutcome({ ...state, members: { ...state.members, r0: writer } });
    };
    expect(change(1)?.state.members.r0?.refused).toBe(2);
    const out = change(2);
    expect(out?.state.members.r0).toBeUndefined();
    expect(bodiesOf(out?.effects ?? [], "member.died")[0]?.evidence).toContain("what it stored can not be read");
  });

  it("counts as a failure of the step once that was of no use too often, so that the job ends", () => {
    const { stepAttemptsMax } = running().plan.limits;
    expect(planStepOutcome(running({ unreadable: stepAttemptsMax - 1 }))?.state.step.failures).toBe(0);
    expect(planStepOutcome(running({ unreadable: stepAttemptsMax }))?.state.step.failures).toBe(1);
    const last = planStepOutcome(running({ unreadable: stepAttemptsMax, failures: stepAttemptsMax - 1 }));
    expect(last?.state.ending).toMatchObject({ outcome: "failed", reason: expect.stringContaining("step 4") });
  });

  it("is heard of from a rank of the mesh only", () => {
    const state = stepping({}, { members: ["p0", "p1", "r0"] });
    const body = { step: 4, attempt: 1, epoch: 2, vote: "abort", finite: true, sections: [], unreadable } as const;
    const voteOf = (from: string) =>
      applyVoted(state, reportFrom(state, from, { kind: "step.voted", body: body as unknown as Body<"step.voted"> }))
        .state.step.votes;
    expect(voteOf("r0")).toEqual({});
    expect(voteOf("p1")).toMatchObject({ p1: { unreadable } });
  });

  it("is run again when its groups are sampled again", () => {
    const again = planStepOutcome(running())?.state ?? running();
    const retried = { ...again, leases: { "9-9": { holder: "r0", items: [train(1), train(3)], dueAtMs: 9_000 } } };
    const body = { leaseId: "9-9", receipts: [receiptOf(4, 1), receiptOf(4, 3)], causes: [], durationMs: 1 };
    const { state } = control(retried, reportFrom(retried, "r0", { kind: "groups.completed", body }));
    expect(Object.keys(state.groups[4]?.receipts ?? {})).toEqual(["0", "1", "2", "3"]);
  });
});
