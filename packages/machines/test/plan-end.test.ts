/** Checkpoints, going back to them, letting go, and the end (semantics 6.7). */
import { describe, expect, it } from "vitest";
import { isLastLeaving, planCheckpoint } from "../src/controller/checkpoints/plan-checkpoint.ts";
import { planRestore } from "../src/controller/checkpoints/plan-restore.ts";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import { planEnd } from "../src/controller/plan-end.ts";
import { planReleases } from "../src/controller/plan-releases.ts";
import { type ControllerState, withMember, without } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, linesOf, memberOf, planWith, receiptOf, working } from "./states.ts";

const plan = planWith({ checkpointEverySteps: 2, steps: 7 });
const saved = { step: 4, version: 4, path: "runs/4", host: "h" };
const behind = { lineage: 0, version: 2 };

const savingJob = (version: number, patch: Partial<ControllerState> = {}): ControllerState =>
  working({ plan, version, members: ["p0", "p1", "r0", "c0"], patch });

/** Runs a planner until it rests. */
function settle(planner: typeof planEnd, state: ControllerState): { state: ControllerState; lines: string[] } {
  let current = state;
  const lines: string[] = [];
  for (let change = planner(current); change; change = planner(current)) {
    current = change.state;
    lines.push(...linesOf(change.effects));
    expect(lines.length, "the planner rests").toBeLessThan(20);
  }
  return { state: current, lines };
}

describe("a checkpoint", () => {
  it.each([
    [0, false],
    [1, false],
    [2, true],
    [3, false],
    [6, true],
    [7, true],
  ])("after step %i is ordered: %s", (version, isDue) => {
    expect(settle(planCheckpoint, savingJob(version)).lines).toEqual(isDue ? ["c0 checkpoint.save"] : []);
  });

  it("names every policy replica that holds the version, and the ledger at it", () => {
    const wanted = settle(planCheckpoint, withMember(savingJob(4), "p1", { held: behind }));
    expect(wanted.state.checkpoints).toMatchObject({ wantedStep: 4, dueAtMs: 6_000 });
    const again = withMember(wanted.state, "c0", { order: null });
    const [body] = bodiesOf(planCheckpoint(again)?.effects ?? [], "checkpoint.save");
    expect(body).toMatchObject({ step: 4, lineage: 0, version: 4, holders: [{ id: "p0", addresses: ["unix:p0"] }] });
    expect(body?.ledger).toEqual({ admitted: 0, trained: 0, aborted: 0, quarantined: 0 });
  });

  it("is not ordered twice, nor of a step that is durable already", () => {
    const { state } = settle(planCheckpoint, savingJob(4));
    expect(planCheckpoint(state)).toBeNull();
    expect(
      settle(planCheckpoint, savingJob(4, { checkpoints: { wantedStep: null, dueAtMs: 0, saved, failures: 0 } })).lines,
    ).toEqual([]);
  });

  it("is not hurried for one who leaves while another makes the same commit live", () => {
    const order = { kind: "step.apply", lineage: 0, version: 3, dueAtMs: 9_000 } as const;
    const leaving = withMember(savingJob(3), "p1", { health: "draining" });
    const state = withMember(leaving, "p0", { held: behind, order });
    expect(isLastLeaving(state)).toBe(false);
    expect(isLastLeaving(withMember(state, "p0", { order: null }))).toBe(true);
  });

  it("is made of the state that only leaving replicas hold, and training waits for it", () => {
    let state = savingJob(3);
    for (const id of ["p0", "p1"]) state = withMember(state, id, { health: "draining" });
    expect(isLastLeaving(state)).toBe(true);
    expect(settle(planCheckpoint, state).lines).toEqual(["c0 checkpoint.save"]);
    expect(isLastLeaving(withMember(state, "p1", { health: "healthy" }))).toBe(false);
  });

  it("is made when an operator ends the job", () => {
    const ending = { outcome: "stopped", reason: "", announced: false } as const;
    expect(settle(planCheckpoint, savingJob(3, { ending })).lines).toEqual(["c0 checkpoint.save"]);
  });
});

describe("going back", () => {
  /** Steps 5 and 6 are committed since the checkpoint of step 4; nobody holds version 6, and p9 could take over. */
  function lost(patch: Partial<ControllerState> = {}): ControllerState {
    const history = { 5: [0, 1, 2, 3].map((i) => receiptOf(5, i)), 6: [0, 1, 3].map((i) => receiptOf(6, i)) };
    const base = savingJob(6, { history, checkpoints: { wantedStep: 6, dueAtMs: 9_000, saved, failures: 0 } });
    const members = { ...without(without(base.members, "p0"), "p1"), p9: memberOf("p9", 9) };
    const ledger = { admitted: 32 + 24, trained: 32 + 14, aborted: 0, quarantined: 2 };
    const groups = { 7: groupsOf(7, 1) };
    return {
      ...base,
      members,
      ledger: { ...ledger, admitted: ledger.trained + ledger.quarantined + 8 },
      groups,
      ...patch,
    };
  }

  it("begins a new lineage at the newest checkpoint and makes the steps since pending again, as they were sampled", () => {
    const before = lost();
    expect(imbalanceOf(ledgerOf(before))).toBe(0);
    const change = planRestore(before);
    const state = change?.state as ControllerState;
    expect(state.restore).toEqual({ lineage: 1, version: 4, source: { kind: "checkpoint", path: "runs/4" } });
    expect(state.weights).toBeNull();
    expect(state.step).toMatchObject({ step: 5, attempt: 1, state: "sampling" });
    expect(Object.keys(state.groups)).toEqual(["5", "6", "7"]);
    expect(state.groups[5]?.queue).toEqual([]);
    expect(state.groups[6]?.quarantined).toEqual([2]);
    expect(imbalanceOf(ledgerOf(state))).toBe(0);
    expect(state.ledger.trained).toBe(before.ledger.trained - 14);
    expect(linesOf(change?.effects ?? [])).toEqual(["! alarm.raised"]);
  });

  it("forgets which checkpoint was wanted, so that later ones are made", () => {
    expect(planRestore(lost())?.state.checkpoints).toMatchObject({ wantedStep: null, saved });
  });

  it("without a checkpoint starts over from the source of the job", () => {
    const state = planRestore(lost({ checkpoints: { wantedStep: null, dueAtMs: 0, saved: null, failures: 0 } }))?.state;
    expect(state?.restore).toEqual({ lineage: 1, version: 0, source: plan.weights });
    expect(state?.step.step).toBe(1);
  });

  it.each<[string, (state: ControllerState) => ControllerState]>([
    ["somebody holds the state", (state) => withMember(state, "p9", { held: { lineage: 0, version: 6 } })],
    [
      "a commit is on its way to somebody",
      (state) => withMember(state, "p9", { order: { kind: "step.apply", lineage: 0, version: 6, dueAtMs: 9_000 } }),
    ],
    ["nobody could take over", (state) => ({ ...state, members: without(state.members, "p9") })],
    ["who could take over wants to leave", (state) => withMember(state, "p9", { health: "draining" })],
    ["the outcome of a step is open", (state) => ({ ...state, step: { ...state.step, state: "running" } })],
    ["there are no weights yet", (state) => ({ ...state, weights: null })],
    ["the job is ending", (state) => ({ ...state, ending: { outcome: "stopped", reason: "", announced: false } })],
  ])("waits while %s", (_, change) => {
    expect(planRestore(change(lost()))).toBeNull();
  });
});

describe("a replica that drains is released", () => {
  const drain = (id: string, state: ControllerState = savingJob(3)): ControllerState =>
    withMember(state, id, { health: "draining" });
  const released = (state: ControllerState): string[] => linesOf(planReleases(state)?.effects ?? []);

  it("as a rollout when it has no lease", () => {
    const leases = { "1-1": { holder: "r0", items: [], dueAtMs: 9_000 } };
    expect(released(drain("r0", savingJob(3, { leases })))).toEqual([]);
    expect(released(drain("r0"))).toEqual(["r0 replica.stop"]);
  });

  it("as a policy when the mesh is built without it", () => {
    expect(released(drain("p0"))).toEqual([]);
    const state = drain("p0");
    const rebuilt = { ...state, mesh: { ...state.mesh, members: ["p1"] } };
    expect(released(rebuilt)).toEqual(["p0 replica.stop"]);
    // Somebody follows it only who stays and holds what it holds.
    expect(released(withMember(rebuilt, "p1", { held: null }))).toEqual([]);
    expect(released(withMember(rebuilt, "p1", { health: "draining" }))).toEqual([]);
  });

  it("as the last policy only when what it holds is durable", () => {
    const alone = drain("p0", { ...savingJob(3), members: without(savingJob(3).members, "p1") });
    expect(released(alone)).toEqual([]);
    const checkpoints = {
      wantedStep: null,
      dueAtMs: 0,
      saved: { step: 3, version: 3, path: "runs/3", host: "h" },
      failures: 0,
    };
    expect(released({ ...alone, checkpoints })).toEqual(["p0 replica.stop"]);
    expect(released({ ...alone, checkpoints, step: { ...alone.step, state: "running" } })).toEqual([]);
  });

  it("as a checkpoint actor when it writes nothing, and only once", () => {
    const order = { kind: "checkpoint.save", lineage: 0, version: 3, dueAtMs: 9_000 } as const;
    expect(released(withMember(drain("c0"), "c0", { order }))).toEqual([]);
    const change = planReleases(drain("c0"));
    expect(linesOf(change?.effects ?? [])).toEqual(["c0 replica.stop"]);
    expect(planReleases(change?.state as ControllerState)).toBeNull();
  });
});

describe("the end", () => {
  const over = (patch: Partial<ControllerState> = {}): ControllerState =>
    savingJob(7, {
      checkpoints: {
        wantedStep: null,
        dueAtMs: 0,
        saved: { step: 7, version: 7, path: "runs/7", host: "h" },
        failures: 0,
      },
      ...patch,
    });

  it("comes when every step is committed and durable: everybody is released, then the controller stops", () => {
    const { state, lines } = settle(planEnd, over());
    expect(lines).toEqual(["! job.ended", "p0 replica.stop", "p1 replica.stop", "r0 replica.stop", "c0 replica.stop"]);
    expect(state.ending).toMatchObject({ outcome: "done", announced: true });
    expect(settle(planEnd, { ...state, members: {} })).toMatchObject({
      lines: ["controller.stop"],
      state: { stopped: true },
    });
  });

  it("says what its samplers computed with, where they said it", () => {
    const samplerEngines = [{ build: "b", fingerprint: "f" }];
    const ended = (patch: Partial<ControllerState>) => {
      const deciding = planEnd(over(patch))?.state ?? over(patch);
      return bodiesOf(planEnd(deciding)?.effects ?? [], "job.ended");
    };
    expect(ended({ samplerEngines })).toMatchObject([{ samplers: samplerEngines }]);
    expect(ended({})).toEqual([expect.not.objectContaining({ samplers: expect.anything() })]);
  });

  it("does not wait for ever for replicas to leave", () => {
    const { state } = settle(planEnd, over());
    expect(planEnd({ ...state, nowMs: state.endDueAtMs - 1 })).toBeNull();
    expect(linesOf(planEnd({ ...state, nowMs: state.endDueAtMs })?.effects ?? [])).toEqual(["controller.stop"]);
  });

  it.each<[string, Partial<ControllerState>]>([
    ["a step is to be committed", { step: { ...savingJob(6).step, step: 7 } }],
    [
      "an evaluation is open",
      { evaluation: { version: 7, queue: [], settled: [], attempts: {}, chunks: 1, prompts: 0, correct: 0 } },
    ],
    ["the last checkpoint is being written", { checkpoints: { wantedStep: 7, dueAtMs: 9_000, saved, failures: 0 } }],
  ])("does not come while %s", (_, patch) => {
    expect(planEnd(over(patch))).toBeNull();
  });

  it("comes without the last checkpoint when that is late, as long as somebody holds the weights", () => {
    const state = over({ checkpoints: { wantedStep: 7, dueAtMs: 1_000, saved, failures: 0 } });
    expect(planEnd(state)?.state.ending).toMatchObject({ outcome: "done" });
    const nobody = ["p0", "p1"].reduce((next, id) => withMember(next, id, { held: behind }), state);
    expect(planEnd(nobody)).toBeNull();
  });

  it("is said without waiting for a checkpoint that is not wanted, is durable, is late, or that nobody could write", () => {
    const ending = { outcome: "stopped", reason: "so", announced: false } as const;
    const waits = (wantedStep: number | null, at: number | null, patch: Partial<ControllerState> = {}) => {
      const checkpoints = {
        wantedStep,
        dueAtMs: 2_000,
        saved: at === null ? null : { ...saved, step: at },
        failures: 0,
      };
      return planEnd(savingJob(4, { ending, checkpoints, ...patch })) === null;
    };
    expect([waits(4, 3), waits(4, 4), waits(4, 5), waits(1, null), waits(null, null)]).toEqual([
      ...[true, false, false, true, false],
    ]);
    expect([waits(4, 3, { nowMs: 1_999 }), waits(4, 3, { nowMs: 2_000 })]).toEqual([true, false]);
    expect(waits(4, 3, { plan: { ...plan, checkpointReplicas: 0 } })).toBe(false);
  });

  it("is said with an alarm where the last weights are not durable, and the newest that are", () => {
    const ending = { outcome: "stopped", reason: "so", announced: false } as const;
    const alarms = (version: number, at: number | null, wantedStep: number | null = version) => {
      const checkpoints = { wantedStep, dueAtMs: 0, saved: at === null ? null : { ...saved, step: at }, failures: 0 };
      const { effects = [] } = planEnd(savingJob(version, { ending, checkpoints })) ?? {};
      return bodiesOf(effects, "alarm.raised").map(({ detail }) => detail.split(": ").at(-1));
    };
    expect(alarms(1, null)).toEqual(["there is no checkpoint at all"]);
    expect(alarms(3, 2)).toEqual(["the newest checkpoint is of step 2"]);
    expect([alarms(3, 3), alarms(3, 2, null), alarms(0, null)]).toEqual([[], [], []]);
    expect([alarms(6, 4, null), alarms(7, 4, null)], "the last step alone is wanted anyway").toEqual([
      [],
      ["the newest checkpoint is of step 4"],
    ]);
    const short = { wantedStep: 3, dueAtMs: 0, saved: null, failures: 0, isShort: true } as const;
    const { effects = [] } = planEnd(savingJob(3, { ending, checkpoints: short })) ?? {};
    expect(bodiesOf(effects, "alarm.raised")[0]?.detail).toContain(
      "there is no checkpoint at all; checkpoint.quorum = 1 hosts",
    );
  });

  it("of a job that never had weights says so: no step, no version, nothing that could be lost", () => {
    const ending = { outcome: "failed", reason: "so", announced: false } as const;
    const none = { ...savingJob(0), weights: null, ending };
    const { state, effects = [] } = planEnd(none) ?? {};
    expect(linesOf(effects)).not.toContain("! alarm.raised");
    expect(bodiesOf(effects, "job.ended")).toMatchObject([{ step: 0, lineage: 0, version: 0, sections: [] }]);
    expect(state?.endDueAtMs).toBe(none.nowMs + plan.timing.drainMs);
  });

  it("does not come before the only step of a job is durable or held by somebody", () => {
    const single = planWith({ ...plan, steps: 1 });
    const late = { wantedStep: 1, dueAtMs: 0, saved: null, failures: 0 };
    const state = working({ plan: single, version: 1, members: ["p0", "c0"], patch: { checkpoints: late } });
    expect(planEnd(state)?.state.ending?.outcome).toBe("done");
    expect(planEnd(withMember(state, "p0", { held: { lineage: 0, version: 0 } }))).toBeNull();
  });

  it("comes with a last checkpoint that is durable though nobody holds the weights any more, and not while there are none", () => {
    const nobody = ["p0", "p1"].reduce((next, id) => withMember(next, id, { held: behind }), over());
    expect(planEnd(nobody)?.state.ending?.outcome).toBe("done");
    expect(planEnd(over({ weights: null }))).toBeNull();
  });

  it("waits for the last evaluation", () => {
    const evaluated = planWith({ ...plan, evalPrompts: 10 });
    expect(planEnd({ ...over(), plan: evaluated, evaluatedVersion: 6 })).toBeNull();
    expect(planEnd({ ...over(), plan: evaluated, evaluatedVersion: 7 })).not.toBeNull();
  });

  it("says how the job went", () => {
    const ending = { outcome: "failed", reason: "step 3 failed", announced: false } as const;
    const [body] = bodiesOf(planEnd(over({ ending }))?.effects ?? [], "job.ended");
    expect(body).toMatchObject({ outcome: "failed", reason: "step 3 failed", step: 7, version: 7 });
  });
});
