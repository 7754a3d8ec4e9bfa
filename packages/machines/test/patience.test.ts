import { type ControllerEvent, type ControllerState, mayPass, mayWait } from "@muster/machines/controller";
import type { Body, KindOf } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { control } from "../src/controller/control.ts";
import type { Lease } from "../src/controller/state.ts";
import { groupsOf, planWith, receiptOf, reportFrom, sectionsOf, working } from "./states.ts";

const members = ["p0", "p1", "r0", "r1", "c0"];
const item = (index: number) => ({ purpose: "train" as const, step: 4, index, attempt: 0 });
const lease = (holder: string, ...indices: number[]): Lease => ({ holder, items: indices.map(item), dueAtMs: 9e9 });

/** Step 4 has four groups: one is finished, the others are leased. */
const sampling = (patch: Partial<ControllerState> = {}): ControllerState =>
  working({
    ...{ plan: planWith(), members },
    patch: {
      groups: { 4: { queue: [], receipts: { 0: receiptOf(4, 0) }, quarantined: [] } },
      leases: { "1-1": lease("r0", 1, 2), "1-2": lease("r1", 3) },
      ...patch,
    },
  });
const running = (): ControllerState => {
  const state = working({ members });
  return { ...state, step: { ...state.step, state: "running" } };
};

const reportOf = <K extends KindOf<"report">>(from: string, kind: K, body: object): ControllerEvent =>
  reportFrom(working({ members }), from, { kind, body: body as Body<K> });
const completed = (from: string, leaseId: string, ...indices: number[]): ControllerEvent =>
  reportOf(from, "groups.completed", {
    ...{ leaseId, causes: [], durationMs: 1 },
    receipts: indices.map((index) => receiptOf(4, index)),
  });
const voted = (from: string, patch: object = {}): ControllerEvent =>
  reportOf(from, "step.voted", {
    ...{ step: 4, attempt: 1, epoch: 2, vote: "commit", finite: true, sections: sectionsOf(4) },
    ...patch,
  });
const held = (from: string, version = 3): ControllerEvent =>
  reportOf(from, "weights.held", {
    ...{ lineage: 0, version, sections: sectionsOf(version), addresses: [], bytes: 8, durationMs: 1 },
  });

const withCauses = (event: ControllerEvent): ControllerEvent =>
  "body" in event
    ? ({ ...event, body: { ...event.body, causes: [{ name: "E", message: "", count: 1 }] } } as never)
    : event;
const meshIn = (state: "building" | "ready", ids = ["p0", "p1"]): ControllerState => {
  const job = sampling();
  return { ...job, mesh: { ...job.mesh, state, members: ids } };
};

describe("a report that nobody waits for", () => {
  it.each<[string, () => ControllerState, readonly ControllerEvent[], boolean]>([
    ["the first vote of two", running, [voted("p0")], true],
    ["both votes", running, [voted("p0"), voted("p1")], false],
    ["the same vote twice", running, [voted("p0"), voted("p0")], true],
    ["a vote to abort", running, [voted("p0", { vote: "abort" })], false],
    ["a vote on values that are not finite", running, [voted("p0", { finite: false })], false],
    ["a vote on another attempt", running, [voted("p0", { attempt: 2 })], false],
    ["a vote on another step", running, [voted("p0", { step: 3 })], false],
    ["a vote while no step runs", sampling, [voted("p0")], false],
    [
      "what is stored of a group that is not finished",
      sampling,
      [reportOf("r0", "groups.saved", { leaseId: "1-1", items: [] })],
      true,
    ],
    [
      "work that is handed back",
      sampling,
      [reportOf("r0", "groups.returned", { leaseId: "1-1", items: [], reason: "" })],
      false,
    ],
    ["groups of which some were aborted", sampling, [withCauses(completed("r0", "1-1", 1))], false],
    ["a word on no group", sampling, [completed("r0", "1-1")], false],
    ["groups of a step that is over", () => sampling({ groups: {} }), [completed("r0", "1-1", 1)], false],
    ["a holder while the mesh is built", () => meshIn("building"), [held("p1")], false],
    ["a holder that is no rank of the mesh", () => meshIn("ready", ["p0"]), [held("p1")], false],
    ["a checkpoint actor while the mesh is built", () => meshIn("building"), [held("c0")], true],
    ["part of a lease", sampling, [completed("r0", "1-1", 1)], true],
    ["a whole lease while others are sampled and nothing waits", sampling, [completed("r0", "1-1", 1, 2)], true],
    ["the last groups of a step", sampling, [completed("r0", "1-1", 1, 2), completed("r1", "1-2", 3)], false],
    ["receipts of a lease that is over", sampling, [completed("r0", "1-9", 1)], false],
    ["a second holder", sampling, [held("p1")], true],
    ["a checkpoint actor that holds it", sampling, [held("c0")], true],
    ["a sampler that holds it", sampling, [held("r0")], false],
    ["a holder of another version", sampling, [held("p1", 2)], false],
    ["a second holder and the last groups", sampling, [held("p1"), completed("r1", "1-2", 1, 2, 3)], false],
  ])("%s", (_, stateOf, events, expected) => {
    expect(mayWait(stateOf(), events)).toBe(expected);
  });

  it("is none when its sampler could have more to do", () => {
    const state = sampling();
    const waiting = { ...state, groups: { ...state.groups, 5: groupsOf(5, 0) } };
    expect(mayWait(waiting, [completed("r0", "1-1", 1)])).toBe(true);
    expect(mayWait(waiting, [completed("r0", "1-1", 1), completed("r0", "1-1", 2)])).toBe(false);
  });

  it("is none of the first holder, and none when the next step has all of its groups", () => {
    const state = sampling();
    const { p0, p1 } = state.members;
    if (!p0 || !p1) throw new Error("no trainers");
    const nobody = { ...state, members: { ...state.members, p0: { ...p0, held: null }, p1: { ...p1, held: null } } };
    expect(mayWait(nobody, [held("p0")])).toBe(false);
    expect(mayWait(sampling({ groups: { 4: groupsOf(4, 4) } }), [held("p1")])).toBe(false);
  });

  it("is none at the end of a job", () => {
    const ending = { outcome: "stopped", reason: "asked", announced: true } as const;
    expect(mayWait(sampling({ ending }), [completed("r0", "1-1", 1)])).toBe(false);
  });
});

describe("what the controller says to itself", () => {
  const tick = (atMs: number): ControllerEvent => ({ type: "controller.tick", atMs });

  it("passes reports that wait while nothing is due", () => {
    const state = running();
    const settled = control(state, tick(state.nowMs)).state;
    expect(mayPass(settled, tick(settled.nowMs + 1))).toBe(true);
    const filled: ControllerEvent = {
      type: "controller.filled",
      atMs: settled.nowMs,
      bytes: 1,
      bytesMax: 100,
      lastSeq: 3,
    };
    expect(mayPass(settled, filled)).toBe(true);
    expect(mayPass(settled, held("p1"))).toBe(false);
  });

  it("does not pass them at a deadline: who voted in time is not absent", () => {
    const state = running();
    const settled = control(state, tick(state.nowMs)).state;
    expect(mayPass(settled, tick(settled.nowMs + settled.plan.timing.stepMs * 2))).toBe(false);
  });

  it("does not pass them with a verdict: receipts that came before the end of their sampler count", () => {
    const state = sampling();
    const { incarnation } = state.members.r0 ?? { incarnation: "" };
    const dead: ControllerEvent = {
      ...{ type: "verdict.dead", atMs: state.nowMs, id: "r0", incarnation },
      ...{ evidence: "its connection ended", kind: "silence", silentMs: 30 },
    };
    expect(mayPass(state, dead)).toBe(false);
  });
});
