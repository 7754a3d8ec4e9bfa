/** A quorum that is never reached: copies that will not count go, the disk does not fill, and what went never counts afterwards. */
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { applySaved, applySaveFailed } from "../src/controller/checkpoints/apply-checkpoint.ts";
import { planCheckpoint } from "../src/controller/checkpoints/plan-checkpoint.ts";
import { goBack } from "../src/controller/checkpoints/plan-restore.ts";
import { mayCount, withNamed } from "../src/controller/checkpoints/superseded.ts";
import type { ControllerEffect } from "../src/controller/events.ts";
import { type ControllerState, withMember } from "../src/controller/state.ts";
import { bodiesOf, memberOf, planWith, reportFrom, working } from "./states.ts";

const plan = planWith({ checkpointReplicas: 2, checkpointQuorum: 2, checkpointEverySteps: 1, checkpointKeep: 2 });

/** One checkpoint counts; of two hosts one has lost its actor. */
function alone(patch: Partial<ControllerState> = {}): ControllerState {
  const state = working({ plan: { ...plan, steps: 5_000 }, version: 4, members: ["p0", "r0", "c0"] });
  const saved = { step: 2, version: 2, path: "/c/step-00000002-v2-t1", host: "a", manifestDigest: "m2" };
  const placed = withMember(state, "c0", { host: "a" });
  return { ...placed, checkpoints: { ...placed.checkpoints, saved }, ...patch };
}

/** The actor of the other host is there, too. */
function withSecond(state: ControllerState): ControllerState {
  return { ...state, members: { ...state.members, c1: memberOf("c1", 8, { host: "b" }) } };
}

function at(state: ControllerState, step: number): ControllerState {
  const weights = state.weights && { ...state.weights, version: step };
  const held = { lineage: weights?.lineage ?? 0, version: step };
  return withMember({ ...state, weights, step: { ...state.step, step: step + 1 } }, "p0", { held } as never);
}

const nameOf = (step: number): string => `step-${`${step}`.padStart(8, "0")}-v${step}-t1`;

function saved(state: ControllerState, by: string, step: number) {
  const { lineage = 0 } = state.weights ?? {};
  const file = { path: `/c/${nameOf(step)}`, manifestDigest: `m${step}`, bytes: 1, durationMs: 1 };
  return applySaved(
    state,
    reportFrom(state, by, { kind: "checkpoint.saved", body: { step, lineage, version: step, ...file } }),
  );
}

/** The order to save this step, and the state in which it is given. */
function order(state: ControllerState, step: number) {
  let job: ControllerState | null = at(state, step);
  const bodies: Body<"checkpoint.save">[] = [];
  for (let change = planCheckpoint(job); change && bodies.length === 0; change = planCheckpoint(job)) {
    bodies.push(...bodiesOf(change.effects, "checkpoint.save"));
    job = change.state;
  }
  return { state: job, body: bodies[0] };
}

const namesIn = (body: Body<"checkpoint.save"> | undefined) => body?.superseded?.map(({ name }) => name);
const alarmsIn = (effects: readonly ControllerEffect[]) => bodiesOf(effects, "alarm.raised");

describe("copies of a checkpoint that no second host makes", () => {
  it("are named in the next order but for the newest, and never the checkpoint that counts", () => {
    let state = alone();
    for (const step of [4, 6, 8]) state = saved(order(state, step).state, "c0", step).state;
    const { body } = order(state, 10);
    expect(body).toMatchObject({ pinned: "/c/step-00000002-v2-t1" });
    expect(body?.superseded).toEqual([
      { name: nameOf(4), manifestDigest: "m4" },
      { name: nameOf(6), manifestDigest: "m6" },
    ]);
  });

  it("leave at most four folders after a thousand orders, and every order stays small", () => {
    let state = alone();
    const disk = new Map([[nameOf(2), "m2"]]);
    for (let step = 4; step < 1_004; step += 1) {
      const ordered = order(state, step);
      for (const { name, manifestDigest } of ordered.body?.superseded ?? [])
        if (disk.get(name) === manifestDigest) disk.delete(name);
      disk.set(nameOf(step), `m${step}`);
      state = saved(ordered.state, "c0", step).state;
      expect(disk.size).toBeLessThanOrEqual(4);
      expect(ordered.body?.superseded?.length ?? 0).toBeLessThanOrEqual(64);
    }
    expect([...disk.keys()]).toEqual([nameOf(2), nameOf(1_001 + 1), nameOf(1_003)]);
    expect(state.checkpoints.copies).toHaveLength(2);
  });

  it("stay while another host writes the same version, which would make them count", () => {
    const two = withSecond(alone());
    const both = order(two, 4);
    const one = saved(both.state, "c0", 4).state;
    const later = saved(order(one, 6).state, "c0", 6).state;
    expect(namesIn(order(later, 8).body)).toBeUndefined();
    expect(saved(order(later, 8).state, "c1", 4).state.checkpoints.saved).toMatchObject({ step: 4 });
  });

  it("never count once they are named, however late the other host says so: they may be gone", () => {
    let state = alone();
    for (const step of [4, 6, 8]) state = saved(order(state, step).state, "c0", step).state;
    const two = withSecond(state);
    const late = saved(two, "c1", 4);
    expect(late.state.checkpoints.saved).toMatchObject({ step: 2 });
    expect(late.state.checkpoints.copies?.map(({ step }) => step)).toEqual([6, 8]);
    expect(late.state.checkpoints.countsFrom).toBe(5);
    // What was not named counts as before.
    expect(saved(two, "c1", 8).state.checkpoints.saved).toMatchObject({ step: 8 });
  });

  it("are named when the job goes back behind them, and a version of the new line counts under its own name", () => {
    let state = alone();
    for (const step of [4, 6]) state = saved(order(state, step).state, "c0", step).state;
    const { checkpoints } = goBack(state, "a test").state;
    expect(checkpoints.superseded?.map(({ name }) => name)).toEqual([nameOf(4), nameOf(6)]);
    expect(checkpoints).not.toHaveProperty("countsFrom");
    expect(checkpoints).not.toHaveProperty("copies");
  });
});

describe("a disk that is full", () => {
  const full = { folder: "/c", freeBytes: 1_048_576, neededBytes: 8_388_608 };
  const failed = (state: ControllerState) =>
    applySaveFailed(
      state,
      reportFrom(state, "c0", {
        kind: "checkpoint.failed",
        body: { step: 4, lineage: 0, version: 4, cause: "it does not fit", full },
      }),
    );

  it("raises an alarm of its own, once, with the folder, what is free and needed, and the way out; training goes on", () => {
    const once = failed(order(alone(), 4).state);
    expect(alarmsIn(once.effects)).toEqual([
      {
        alarm: "checkpoint-disk",
        detail:
          "the checkpoint of step 4 does not fit on a: /c has 1.0 MiB free and 8.0 MiB are needed; free space there, or lower checkpoint.keep; training goes on, and the last good checkpoint stays",
      },
    ]);
    const again = failed(once.state);
    expect(alarmsIn(again.effects)).toEqual([]);
    expect(again.state.ending).toBeNull();
  });

  it("promises no training where its rule ends the job", () => {
    const failure = { ...plan.failure, checkpointIo: { action: "abort", attempts: 1, backoffMs: 0 } as const };
    const { state, effects } = failed(order(alone({ plan: { ...plan, failure } }), 4).state);
    expect(state.ending?.outcome).toBe("failed");
    expect(alarmsIn(effects)[0]?.detail).toMatch(
      / or lower checkpoint\.keep; the job ends with this, and the last good checkpoint stays$/,
    );
  });

  it("is said again after something became durable in between", () => {
    const said = failed(order(alone({ plan: { ...plan, checkpointQuorum: 1 } }), 4).state).state;
    const { state } = saved(said, "c0", 4);
    expect(state.checkpoints).not.toHaveProperty("isFull");
    expect(alarmsIn(failed(state).effects)).toMatchObject([{ alarm: "checkpoint-disk" }]);
  });
});

describe("copies of checkpoints that may go", () => {
  const copy = (name: string, manifestDigest?: string) =>
    ({ path: `/c/${name}`, version: 1, step: 1, host: "a", ...(manifestDigest ? { manifestDigest } : {}) }) as never;
  const { checkpoints } = working();

  it("are named once each, by folder and manifest, and the newest 64 of them", () => {
    const named = withNamed(checkpoints, [copy("a", "m1"), copy("b", "m2")]);
    expect(named.superseded).toEqual([
      { name: "a", manifestDigest: "m1" },
      { name: "b", manifestDigest: "m2" },
    ]);
    expect(withNamed(named, [copy("a", "m1")]).superseded?.map(({ name }) => name)).toEqual(["b", "a"]);
    expect(withNamed(named, [copy("a", "m2")]).superseded).toHaveLength(3);
    expect(withNamed(named, [copy("b", "m1")]).superseded).toHaveLength(3);
    expect(withNamed(named, [copy("c")])).toBe(named);
    expect(withNamed(named, [])).toBe(named);
  });

  it("do not count from there on, and newer ones do", () => {
    const counts = (version: number, patch: object = {}): boolean =>
      mayCount({ ...checkpoints, ...patch }, { version } as never);
    expect([0, 1].map((version) => counts(version))).toEqual([true, true]);
    expect([4, 5, 6].map((version) => counts(version, { countsFrom: 5 }))).toEqual([false, true, true]);
  });
});
