/** The watchdog on progress: one stage after the other, and none while somebody is missing (semantics 6.12). */
import { describe, expect, it } from "vitest";
import { planWatchdog } from "../src/controller/plan-watchdog.ts";
import { moved, spentMsOf } from "../src/controller/progress.ts";
import { type ControllerState, withMember } from "../src/controller/state.ts";
import { bodiesOf, linesOf, planWith, stepping, voteFor, working } from "./states.ts";

const plan = planWith({ health: { readmitAfterMs: 5_000, progressMs: 300_000 } });
const stuck = (): ControllerState => ({
  ...stepping({ p0: voteFor(4) }, { plan }),
  progress: { atMs: 0, stage: 0, isShort: false },
  checkpoints: { wantedStep: null, dueAtMs: 0, saved: { step: 2, version: 2, path: "/c/2", host: "h" }, failures: 0 },
});
const at = (state: ControllerState, minutes: number): ControllerState => ({ ...state, nowMs: minutes * 60_000 });

describe("a job without progress", () => {
  it("is named with whom it waits for, then loses that one, begins anew, goes back to its checkpoint, and ends with what is known", () => {
    expect(planWatchdog(at(stuck(), 4.99))).toBeNull();
    const warned = planWatchdog(at(stuck(), 5));
    expect(bodiesOf(warned?.effects ?? [], "alarm.raised")[0]).toMatchObject({
      alarm: "progress",
      detail: expect.stringMatching(
        /^no committed step and no finished group for 300000 ms at step 4: waiting for p1$/,
      ),
    });
    const state = warned?.state as ControllerState;
    expect(planWatchdog(at(state, 9.9))).toBeNull();
    const out = planWatchdog(at(state, 10));
    expect(linesOf(out?.effects ?? [])).toEqual(["! alarm.raised", "! member.died", "p1 replica.fenced"]);
    const anew = planWatchdog(at(out?.state as ControllerState, 15));
    expect(anew?.state.mesh.state).toBe("broken");
    const back = planWatchdog(at(anew?.state as ControllerState, 20));
    expect(bodiesOf(back?.effects ?? [], "alarm.raised").map(({ alarm }) => alarm)).toEqual(["progress", "rollback"]);
    expect(back?.state).toMatchObject({ weights: null, step: { step: 3, state: "sampling" }, wentBackAt: 4 });
    const ended = planWatchdog(at(back?.state as ControllerState, 25));
    expect(ended?.state.ending).toMatchObject({ outcome: "failed", reason: expect.stringContaining("at step 3") });
  });

  it("waits for trainers with an order first, then for the oldest lease, then for samplers with an order", () => {
    const order = { kind: "weights.pull", lineage: 0, version: 3, dueAtMs: 9e9 } as const;
    const base = working({ plan, patch: { progress: { atMs: 0, stage: 0, isShort: false } } });
    const leaseOf = (holder: string, dueAtMs: number) => ({ holder, items: [], dueAtMs });
    const leases = { "1-1": leaseOf("gone", 1), "1-2": leaseOf("r0", 3), "1-3": leaseOf("p1", 2) };
    const leased = { ...base, leases };
    const names = (state: ControllerState): string | undefined =>
      bodiesOf(planWatchdog(at(state, 5))?.effects ?? [], "alarm.raised")[0]?.detail.split(": waiting for ")[1];
    expect(names(withMember(withMember(leased, "p0", { order }), "r0", { order }))).toBe("p0");
    expect(names(withMember(leased, "r0", { order }))).toBe("p1, r0");
    expect(names(withMember({ ...base, leases: { "1-1": leaseOf("gone", 1) } }, "r0", { order }))).toBe("r0");
    expect(names({ ...leased, leases: { "1-2": leaseOf("r0", 3) } })).toBe("r0");
    expect(names(base)).toBe("nobody");
    expect(names({ ...base, mesh: { ...base.mesh, state: "building", built: ["p0"] } })).toBe("p1");
  });

  it("goes back once: stuck again at the same step, it ends", () => {
    const again = { ...stuck(), wentBackAt: 4, progress: { atMs: 0, stage: 3, isShort: false } };
    expect(planWatchdog(at(again, 20))?.state.ending?.outcome).toBe("failed");
  });

  it("tells who still computes that the step is over when it goes back", () => {
    const late = { ...stuck(), progress: { atMs: 0, stage: 3, isShort: false } };
    expect(linesOf(planWatchdog(at(late, 20))?.effects ?? [])).toEqual([
      "! alarm.raised",
      "p0 step.discard",
      "p1 step.discard",
      "! alarm.raised",
    ]);
  });

  it("has its mesh built anew, once there was one", () => {
    const base = working({ plan, patch: { progress: { atMs: 0, stage: 2, isShort: false } } });
    const meshAfter = (epoch: number) =>
      planWatchdog(at({ ...base, mesh: { ...base.mesh, epoch, state: epoch === 0 ? "none" : "ready" } }, 15))?.state
        .mesh.state;
    expect([meshAfter(0), meshAfter(1), meshAfter(2)]).toEqual(["none", "broken", "broken"]);
  });

  it("counts the time in which nobody was missing, from nothing on", () => {
    const spent = (progress: object) => spentMsOf(at(working({ plan, patch: { progress: progress as never } }), 1));
    const began = { atMs: 0, stage: 0, isShort: false };
    expect([spent(began), spent({ ...began, spentMs: 5 }), spent({ ...began, isShort: true })]).toEqual([
      60_000, 60_005, 0,
    ]);
  });

  it("gets its leases and orders back in the queue when it begins anew", () => {
    const item = { purpose: "train" as const, step: 4, index: 0, attempt: 0 };
    const leases = { "1-1": { holder: "r0", items: [item], dueAtMs: 9_000_000 } };
    const groups = { 4: { queue: [], receipts: {}, quarantined: [] } };
    const base = working({ plan, patch: { leases, groups, progress: { atMs: 0, stage: 2, isShort: false } } });
    const order = { kind: "weights.pull", lineage: 0, version: 3, dueAtMs: 9_000_000 } as const;
    const anew = planWatchdog(at(withMember(base, "r0", { order }), 15));
    expect(anew?.state.leases).toEqual({});
    expect(anew?.state.members.r0?.order).toBeNull();
    expect(anew?.state.groups[4]?.queue).toMatchObject([{ index: 0, attempt: 0 }]);
  });

  it("is watched from the last thing that moved", () => {
    expect(planWatchdog(at(moved(at(stuck(), 4)), 8.9))).toBeNull();
    expect(planWatchdog(at(moved(at(stuck(), 4)), 9))).not.toBeNull();
  });

  it.each<[string, (state: ControllerState) => ControllerState]>([
    ["has no rollout replica", (state) => withMember(state, "r0", { health: "draining" })],
    ["never had a mesh", (state) => ({ ...state, mesh: { ...state.mesh, epoch: 0 } })],
    ["is ending", (state) => ({ ...state, ending: { outcome: "stopped", reason: "", announced: false } })],
  ])("is left alone while it %s", (_, change) => {
    expect(planWatchdog(at(change(stuck()), 60))?.effects ?? []).toEqual([]);
  });

  it("waits all of the time anew for whoever was missing: nobody is blamed for the time of an absence", () => {
    const short = withMember(stuck(), "r0", { health: "draining" });
    const waiting = planWatchdog(at(short, 10))?.state as ControllerState;
    const complete = planWatchdog(at(withMember(waiting, "r0", { health: "healthy" }), 60))?.state as ControllerState;
    expect(planWatchdog(at(complete, 64.9))).toBeNull();
    expect(linesOf(planWatchdog(at(complete, 65))?.effects ?? [])).toEqual(["! alarm.raised"]);
  });

  it("notes an absence once, so that its ticks leave nothing in the journal", () => {
    const short = withMember(stuck(), "r0", { health: "draining" });
    const waiting = planWatchdog(at(short, 10))?.state as ControllerState;
    expect(planWatchdog(at(waiting, 10.1))).toBeNull();
    expect(planWatchdog(at(waiting, 60))).toBeNull();
  });
});
