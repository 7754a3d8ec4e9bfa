/** What a verdict does to the tables, and how long a replica that was evicted stays out. */
import { describe, expect, it } from "vitest";
import { control } from "../src/controller/control.ts";
import type { VerdictEvent } from "../src/controller/events.ts";
import { applyDraining, applyExited, applyRegister } from "../src/controller/members/apply-membership.ts";
import { applyVerdict, isFlaky } from "../src/controller/members/apply-verdict.ts";
import { planReadmission } from "../src/controller/members/plan-readmission.ts";
import { type ControllerState, withMember } from "../src/controller/state.ts";
import { planMesh } from "../src/controller/step/plan-mesh.ts";
import { planStepOutcome } from "../src/controller/step/plan-step.ts";
import { planPulls } from "../src/controller/weights/plan-weights.ts";
import { bodiesOf, linesOf, memberOf, planWith, reportFrom, stepping, voteFor, working } from "./states.ts";

const verdict = (type: "suspect" | "recover" | "hung" | "dead", patch: Partial<VerdictEvent> = {}): VerdictEvent => ({
  type: `verdict.${type}`,
  atMs: 1_000,
  id: "r0",
  incarnation: "r0-i3",
  kind: type === "hung" ? "hang" : "silence",
  evidence: "no sign of life",
  silentMs: 4_500,
  ...patch,
});
const leases = {
  "1-1": { holder: "r0", items: [{ purpose: "train" as const, step: 4, index: 0, attempt: 0 }], dueAtMs: 9_000 },
};
const leased = (): ControllerState =>
  working({ patch: { leases, groups: { 4: { queue: [], receipts: {}, quarantined: [] } } } });
const at = (state: ControllerState, nowMs: number): ControllerState => ({ ...state, nowMs });

describe("a verdict", () => {
  it("of suspicion stops new work, and recovery allows it again; both say by what and for how long", () => {
    const suspected = applyVerdict(working(), verdict("suspect"));
    expect(bodiesOf(suspected.effects, "member.suspected")).toMatchObject([
      { id: "r0", by: "silence", silentMs: 4_500 },
    ]);
    expect(suspected.state.members.r0?.health).toBe("suspect");
    const recovered = applyVerdict(suspected.state, verdict("recover"));
    expect(recovered.state.members.r0?.health).toBe("healthy");
    expect(linesOf(recovered.effects)).toEqual(["! member.recovered"]);
  });

  it("of death takes leases back at once and tells the replica, should it live", () => {
    const { state, effects } = applyVerdict(leased(), verdict("dead"));
    expect(linesOf(effects)).toEqual(["! member.died", "! groups.released", "r0 replica.fenced"]);
    expect(state.members.r0).toBeUndefined();
    expect(state.gone).toEqual(["r0-i3"]);
    expect(state.groups[4]?.queue).toMatchObject([{ index: 0, attempt: 1 }]);
  });

  it.each(["suspect", "recover", "hung", "dead"] as const)("of %s about another life changes nothing", (type) => {
    const state = working();
    expect(applyVerdict(state, verdict(type, { incarnation: "r0-i1" }))).toEqual({ state, effects: [] });
  });

  it("does not stop a replica from leaving", () => {
    const { state } = applyDraining(working(), "r0");
    expect(applyVerdict(state, verdict("suspect")).state.members.r0?.health).toBe("draining");
    expect(applyVerdict(state, verdict("recover")).state.members.r0?.health).toBe("draining");
  });
});

describe("a member that hangs", () => {
  it("loses its work and stays; when it hangs again within ten minutes it is out", () => {
    const first = applyVerdict(leased(), verdict("hung"));
    expect(linesOf(first.effects)).toEqual(["! member.hung", "! groups.released"]);
    expect(first.state.members.r0).toMatchObject({ health: "hung", hungAtMs: 1_000 });
    const back = applyVerdict(first.state, verdict("recover")).state;
    const late = applyVerdict(at(back, 601_000), verdict("hung"));
    expect(late.state.members.r0?.health).toBe("hung");
    const again = applyVerdict(at(back, 600_999), verdict("hung"));
    expect(linesOf(again.effects)).toEqual(["! member.hung", "! member.died", "r0 replica.fenced"]);
    expect(bodiesOf(again.effects, "member.died")[0]).toMatchObject({ by: "hang" });
  });

  it("before its vote does not hold the step up: the batch runs again without it", () => {
    const state = stepping({ p0: voteFor(4) });
    expect(planStepOutcome(state)).toBeNull();
    const hung = withMember(state, "p1", { health: "hung" });
    const retried = planStepOutcome(hung);
    expect(bodiesOf(retried?.effects ?? [], "step.retried")[0]?.reason).toBe("p1 hangs");
    const built = planMesh({ ...(retried?.state as ControllerState), nowMs: 9_000 });
    expect(built?.state.mesh.members).toEqual(["p0"]);
  });
});

describe("a suspect", () => {
  it("is no rank of a new epoch while others are there, and costs nobody a mesh that works", () => {
    const suspect = withMember(working(), "p1", { health: "suspect" });
    expect(planMesh(suspect)).toBeNull();
    const broken = { ...suspect, mesh: { ...suspect.mesh, state: "broken" as const } };
    expect(planMesh(broken)?.state.mesh.members).toEqual(["p0"]);
    const alone = withMember(broken, "p0", { health: "suspect" });
    expect(planMesh(alone)?.state.mesh.members).toEqual(["p0", "p1"]);
  });

  it("is the last choice as a source of weights, and so is who was lost from view more than ten times an hour", () => {
    const base = working({ members: ["p0", "p1", "r0"] });
    const behind = withMember(base, "r0", { held: null });
    const sourcesOf = (state: ControllerState): string[] =>
      bodiesOf(planPulls(state)?.effects ?? [], "weights.pull").flatMap(({ holders }) => holders.map(({ id }) => id));
    expect(sourcesOf(withMember(behind, "p0", { health: "suspect" }))[0]).toBe("p1");
    expect(sourcesOf(withMember(behind, "p1", { health: "suspect" }))[0]).toBe("p0");
    let state = behind;
    for (let i = 0; i < 11; i++) {
      const nowMs = 1_000 + i * 60_000;
      const patch = { id: "p1", incarnation: "p1-i2", atMs: nowMs };
      state = applyVerdict(
        applyVerdict(at(state, nowMs), verdict("suspect", patch)).state,
        verdict("recover", patch),
      ).state;
    }
    expect(isFlaky(state.members.p1 ?? memberOf("p1", 1))).toBe(true);
    expect(isFlaky(memberOf("p1", 1, { recoveries: Array(10).fill(1) }))).toBe(false);
    const still = applyVerdict(state, verdict("recover", { id: "p1", incarnation: "p1-i2" })).state;
    expect(still.members.p1?.recoveries, "no more is kept than decides it").toHaveLength(11);
    expect(sourcesOf(state)).toEqual(["p0", "p1"]);
    const later = applyVerdict(at(state, 5_000_000), verdict("recover", { id: "p1", incarnation: "p1-i2" })).state;
    expect(isFlaky(later.members.p1 ?? memberOf("p1", 1))).toBe(false);
  });
});

describe("a replica that was evicted", () => {
  const plan = planWith({ health: { readmitAfterMs: 5_000, progressMs: 300_000 } });
  const register = (state: ControllerState, incarnation: string, pid = 3) =>
    applyRegister(state, {
      type: "replica.register",
      atMs: state.nowMs,
      from: "r0",
      role: "rollout",
      incarnation,
      body: { role: "rollout", host: "h", pid, engineBuild: "b" },
    });

  it("waits twice as long each time within an hour, and is admitted by itself when the time is over", () => {
    let state = working({ plan });
    let outMs = 1_000;
    for (const pauseMs of [10_000, 20_000, 40_000]) {
      const incarnation = state.members.r0?.incarnation ?? "";
      state = applyVerdict(at(state, outMs), verdict("dead", { incarnation })).state;
      const waiting = register(at(state, outMs + 100), `i${outMs}`);
      expect(waiting.state.members.r0).toBeUndefined();
      expect(planReadmission(at(waiting.state, outMs + pauseMs - 1))).toBeNull();
      const back = planReadmission(at(waiting.state, outMs + pauseMs));
      expect(linesOf(back?.effects ?? [])).toEqual(["admit r0", "! member.joined"]);
      state = back?.state ?? state;
      expect(state.waiting).toEqual({});
      outMs += pauseMs + 1_000;
    }
  });

  it("never waits longer than ten minutes, and an hour later the count begins anew", () => {
    const times = Array.from({ length: 12 }, (_, i) => i);
    const earlier = { r0: { times, untilMs: 0, host: "h", pid: 3 } };
    const state = applyVerdict(working({ plan, patch: { evictions: earlier } }), verdict("dead")).state;
    expect(state.evictions.r0?.untilMs).toBe(601_000);
    const old = working({ plan, patch: { evictions: earlier } });
    const late = applyVerdict(at(old, 4_000_000), verdict("dead")).state;
    expect(late.evictions.r0?.untilMs).toBe(4_010_000);
  });

  it("need not wait once its process was seen to end, and neither does one that left or was killed", () => {
    const out = applyVerdict(working({ plan }), verdict("dead")).state;
    const body = { id: "r0", host: "h", pid: 3, code: null, signal: "SIGKILL" };
    const ended = applyExited(out, reportFrom(out, "node", { kind: "process.exited", body })).state;
    expect(register(ended, "fresh", 9).state.members.r0?.incarnation).toBe("fresh");
    const killed = applyExited(working({ plan }), reportFrom(out, "node", { kind: "process.exited", body })).state;
    expect(register(killed, "fresh", 9).state.members.r0?.incarnation).toBe("fresh");
  });

  it("is told to go when the job ends while it waits", () => {
    const out = register(applyVerdict(working({ plan }), verdict("dead")).state, "next").state;
    const ending = { outcome: "stopped", reason: "enough", announced: false } as const;
    const told = planReadmission({ ...out, ending });
    expect(linesOf(told?.effects ?? [])).toEqual(["r0 replica.refused"]);
  });

  it("keeps its pause when another controller takes over, whatever its clock says", () => {
    const out = applyVerdict(working({ plan }), verdict("dead")).state;
    const { state } = control(out, { type: "controller.elected", atMs: 77, term: 2 });
    expect(state.evictions.r0?.untilMs).toBe(77 + 10_000);
  });
});
