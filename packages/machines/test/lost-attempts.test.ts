/** A step that loses its trainers again and again ends the job, with how they ended; one that does so now and then does not. */
import { describe, expect, it } from "vitest";
import { control } from "../src/controller/control.ts";
import { applyRetired } from "../src/controller/fleet/apply-node.ts";
import { planWatchdog } from "../src/controller/plan-watchdog.ts";
import { arrived, moved } from "../src/controller/progress.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { noteLoss, noteLostTrainer, planLosses } from "../src/controller/step/lost-attempts.ts";
import { planStepOutcome } from "../src/controller/step/plan-step.ts";
import { groupsOf, memberOf, planWith, reportFrom, stepping, voteFor } from "./states.ts";

const dying = (state: ControllerState): ControllerState => {
  const { host = "", pid = 0 } = state.members.p1 ?? {};
  const body = { id: "p1", role: "policy", host, pid, code: null, signal: "SIGSEGV" } as const;
  return control(state, { ...reportFrom(state, "p1", { kind: "process.exited", body }), role: "operator" }).state;
};

/** The same step runs again with the trainers that it had. */
const again = (state: ControllerState): ControllerState => {
  const fresh = stepping({});
  const { members, mesh, groups } = fresh;
  const step = { ...fresh.step, attempt: state.step.attempt };
  return { ...state, members, mesh, groups, step };
};

const lost = (times: number): ControllerState =>
  Array.from({ length: times }).reduce<ControllerState>((state) => again(dying(state)), stepping({}));

describe("a step that loses a trainer in every attempt", () => {
  const most = 4 * planWith().limits.stepAttemptsMax;

  it("ends the job in the end, with its number and the last ends of trainers", () => {
    expect(lost(most - 1).ending).toBeNull();
    expect(dying(lost(most - 1)).ending).toMatchObject({
      outcome: "failed",
      reason: `step 4 lost its trainers in ${most} attempts in a row; the last ends: ${Array(5).fill("p1: process ended with SIGSEGV").join("; ")}`,
    });
  });

  it("is counted on when the job goes back, and anew after a commit", () => {
    const state = lost(3);
    expect(state.losses?.[4]?.count).toBe(3);
    const earlier = { ...state, step: { ...state.step, step: 2 }, groups: { 2: groupsOf(2, 4) } };
    const votes = { p0: voteFor(2), p1: voteFor(2) };
    const committed = planStepOutcome({ ...earlier, step: { ...earlier.step, votes } })?.state;
    expect(committed?.losses?.[4]?.count).toBe(3);
    const over = planStepOutcome({
      ...state,
      step: { ...state.step, votes: { p0: voteFor(4), p1: voteFor(4) } },
    })?.state;
    expect(over?.losses).toEqual({});
    expect(over?.step).toMatchObject({ step: 5, attempt: 1, failures: 0, unreadable: 0 });
  });

  it("ends the job as soon as nodes have given all its trainers up", () => {
    const { p0: _, p1: __, ...members } = lost(2).members;
    const replica = { role: "policy", health: "RETIRED" } as ControllerState["fleet"]["replicas"][string];
    const state = lost(2);
    const retired = { ...state, members, fleet: { ...state.fleet, replicas: { p0: replica, p1: replica } } };
    expect(planLosses(retired)?.state.ending?.reason).toContain("all trainers are given up");
    expect(planLosses({ ...retired, losses: {} })).toBeNull();
    expect(planLosses(state)).toBeNull();
    const only = { ...retired, fleet: { ...state.fleet, replicas: { p1: replica } } };
    expect(planLosses(only)?.state.ending?.reason).toContain("all trainers are given up");
  });

  it("remembers how trainers ended, else why the attempt was lost, in 200 characters each", () => {
    const long = "x".repeat(300);
    expect(noteLoss(stepping({}), long).losses?.[4]).toMatchObject({ count: 1, causes: [long.slice(100)] });
    const member = memberOf("p1", 2);
    const known = noteLostTrainer(stepping({}), member, { evidence: long, isOutside: false });
    const twice = noteLostTrainer(known, member, { evidence: "again", isOutside: false });
    expect(known.losses?.[4]?.causes).toEqual([`p1: ${long}`.slice(0, 200)]);
    expect(twice.losses?.[4]).toMatchObject({ ended: 2, last: "p1" });
    expect(noteLoss(known, "p1 was lost").losses?.[4]?.causes).toEqual(known.losses?.[4]?.causes);
  });
});

describe("the last trainer, when its node gives it up", () => {
  type Replica = ControllerState["fleet"]["replicas"][string];

  /** p1 is the only trainer that nodes run, and is between two lives. */
  const alone = (state: ControllerState): ControllerState => {
    const { p0: _, p1: __, ...members } = state.members;
    const given = { role: "policy", health: "RETIRED", leaving: false, node: "n0", life: 6 } as Replica;
    const replicas = { p0: given, p1: { ...given, health: "DEAD" as const, node: "n1" } };
    return { ...state, members, fleet: { ...state.fleet, replicas } };
  };
  const retired = (state: ControllerState) => {
    const body = { id: "p1", life: 6, deaths: 6, reason: "it ended 6 times in 10 minutes" };
    return applyRetired(state, { type: "process.retired", from: "n1", role: "node", body } as never);
  };

  it("begins another life while its step loses trainers: somebody has to find the group that ends them", () => {
    const { state, effects } = retired(alone(lost(2)));
    expect(state.fleet.replicas.p1).toMatchObject({ health: "DEAD", life: 7 });
    expect(state.ending).toBeNull();
    const alarms = effects.filter((effect) => effect.type === "announce" && effect.kind === "alarm.raised");
    expect(alarms).toMatchObject([
      { body: { alarm: "batch", detail: expect.stringMatching(/^p1 would be given up/) } },
    ]);
  });

  it("is given up where no step loses trainers, where another one is left, and after it was spared four times in a step", () => {
    const healthOf = (state: ControllerState) => retired(state).state.fleet.replicas.p1?.health;
    expect(healthOf(alone({ ...lost(2), losses: {} }))).toBe("RETIRED");
    const state = alone(lost(2));
    const { p0, p1 } = state.fleet.replicas;
    const other = { ...state.fleet, replicas: { p0: { ...p0, health: "HEALTHY" } as Replica, p1: p1 as Replica } };
    expect(healthOf({ ...state, fleet: other })).toBe("RETIRED");
    const often = Array.from({ length: 4 }).reduce<ControllerState>((now) => retired(now).state, state);
    expect(often.fleet.replicas.p1?.health).toBe("DEAD");
    expect(healthOf(often)).toBe("RETIRED");
  });
});

describe("the watchdog", () => {
  const plan = planWith({ health: { readmitAfterMs: 5_000, progressMs: 300_000 } });
  const at = (state: ControllerState, minutes: number): ControllerState => ({ ...state, nowMs: minutes * 60_000 });
  const stuck = (): ControllerState => ({
    ...stepping({}, { plan }),
    progress: { atMs: 0, stage: 0, isShort: false },
  });
  /** Somebody comes every minute, and nothing is got done. */
  const restless = (minutes: number, since = stuck()): ControllerState =>
    Array.from({ length: minutes }, (_, i) => i + 1).reduce((state, minute) => {
      const come = arrived(at(state, minute));
      return planWatchdog(come)?.state ?? come;
    }, since);

  it("blames nobody who has just come, and still ends a job in which one comes after the other", () => {
    expect(restless(19).progress.stage).toBe(0);
    expect(restless(20)).toMatchObject({ progress: { stage: 4 }, weights: null });
    expect(restless(24).ending).toBeNull();
    expect(restless(25).ending?.outcome).toBe("failed");
  });

  it("begins anew when something is got done, and not when a controller is elected", () => {
    expect(moved(at(restless(12), 12)).progress).toMatchObject({ atMs: 720_000, stage: 0, spentMs: 0 });
    const { state } = control(restless(12), { type: "controller.elected", atMs: 50, term: 2 });
    expect(state.progress).toMatchObject({ atMs: 50, stage: 0, spentMs: 720_000 });
  });
});
