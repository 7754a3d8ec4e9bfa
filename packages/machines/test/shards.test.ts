/** One checkpoint that several actors write together: who writes what, what counts when, and what becomes of the work of those who die. */
import { type Body, flawOf } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { applySaved, applySaveFailed } from "../src/controller/checkpoints/apply-checkpoint.ts";
import { pinsOf } from "../src/controller/checkpoints/fallback.ts";
import { planCheckpoint } from "../src/controller/checkpoints/plan-checkpoint.ts";
import { goBack } from "../src/controller/checkpoints/plan-restore.ts";
import { applyShardsSaved, isSetWhole } from "../src/controller/checkpoints/shards.ts";
import type { Change } from "../src/controller/events.ts";
import { planEnd } from "../src/controller/plan-end.ts";
import { type ControllerState, membersOf, withMember } from "../src/controller/state.ts";
import { bodiesOf, memberOf, planWith, reportFrom, working } from "./states.ts";

const plan = planWith({ checkpointReplicas: 3, checkpointShards: 3, checkpointEverySteps: 2, steps: 20 });

/** Step 4 is committed and is to be durable. */
function wanting(patch: Partial<ControllerState> = {}): ControllerState {
  const state = working({ plan, version: 4, members: ["p0", "r0", "c0", "c1", "c2"] });
  return { ...state, checkpoints: { ...state.checkpoints, wantedStep: 4 }, ...patch };
}

/** A job whose planner runs after every report, as the controller's does. */
class Job {
  state: ControllerState;
  said: string[] = [];
  bodies: Body<"checkpoint.save">[] = [];

  constructor(state = wanting()) {
    this.state = state;
    this.plan();
  }

  plan(): void {
    for (let change = planCheckpoint(this.state); change; change = planCheckpoint(this.state)) this.take(change);
  }

  take({ state, effects }: Change<ControllerState>): void {
    this.state = state;
    for (const effect of effects)
      if (effect.type === "command" && effect.kind === "checkpoint.save") {
        const { step, shards } = effect.body;
        this.said.push(`${effect.to} ${step}: ${shards?.write.join() || "seal"}`);
      }
    this.bodies.push(...bodiesOf(effects, "checkpoint.save"));
  }

  at(nowMs: number): void {
    this.state = { ...this.state, nowMs };
  }

  /** What was said since the last time. */
  heard(): string[] {
    return this.said.splice(0);
  }

  wrote(by: string, write: number[], step = 4): void {
    const body = { step, lineage: 0, version: step, shards: { of: 3, write }, bytes: 1, durationMs: 1 };
    this.take(applyShardsSaved(this.state, reportFrom(this.state, by, { kind: "shards.saved", body })));
    this.plan();
  }

  sealed(by: string, step = 4): void {
    const body = { step, lineage: 0, version: step, path: `/c/${step}`, manifestDigest: "m", bytes: 1, durationMs: 1 };
    this.take(applySaved(this.state, reportFrom(this.state, by, { kind: "checkpoint.saved", body })));
    this.plan();
  }

  failed(by: string, why: Partial<Body<"checkpoint.failed">> = {}, step = 4): void {
    const body = { step, lineage: 0, version: step, cause: "no disk", ...why };
    this.take(applySaveFailed(this.state, reportFrom(this.state, by, { kind: "checkpoint.failed", body })));
    this.plan();
  }

  dies(...ids: string[]): void {
    const members = Object.fromEntries(Object.entries(this.state.members).filter(([id]) => !ids.includes(id)));
    this.state = { ...this.state, members };
    this.plan();
  }

  /** The job has gone on: nobody but checkpoint actors has the version of step 4 any more. */
  commits(step: number): void {
    const { state } = this;
    const weights = state.weights && { ...state.weights, version: step };
    const next = { ...state, weights, step: { ...state.step, step: step + 1 } };
    this.state = withMember(next, "p0", { held: { lineage: 0, version: step } } as never);
    this.plan();
  }

  get saved(): number | undefined {
    return this.state.checkpoints.saved?.step;
  }
}

it("is ordered from no more trainers than an order has room for", () => {
  const trainers = Array.from({ length: 70 }, (_, i) => `p${i}`);
  const state = working({ plan, version: 4, members: [...trainers, "r0", "c0", "c1", "c2"] });
  const { bodies } = new Job({ ...state, checkpoints: { ...state.checkpoints, wantedStep: 4 } });
  expect(bodies.length).toBeGreaterThan(0);
  for (const body of bodies) expect(flawOf("checkpoint.save", body)).toBeNull();
});

describe("a checkpoint in three shards", () => {
  it("is written by three, sealed by one once all have written, and counts only then", () => {
    const job = new Job();
    expect(job.heard()).toEqual(["c0 4: 1", "c1 4: 2", "c2 4: 3"]);
    job.wrote("c2", [3]);
    job.wrote("c0", [1]);
    expect(job.heard()).toEqual([]);
    job.wrote("c1", [2]);
    expect(job.heard()).toEqual(["c0 4: seal"]);
    expect(job.saved).toBeUndefined();
    job.sealed("c0");
    expect(job.saved).toBe(4);
    expect(job.state.checkpoints).toMatchObject({ wantedStep: null });
    expect(job.state.checkpoints.set).toBeUndefined();
    expect(job.heard()).toEqual([]);
  });

  it("is dealt among those who are there, each shard once", () => {
    const job = new Job(wanting({ members: without(wanting(), "c2") }));
    expect(job.heard()).toEqual(["c0 4: 1,3", "c1 4: 2"]);
    const alone = new Job(wanting({ members: without(wanting(), "c1", "c2") }));
    expect(alone.heard()).toEqual(["c0 4: 1,2,3"]);
    alone.wrote("c0", [1, 2, 3]);
    expect(alone.heard()).toEqual(["c0 4: seal"]);
  });

  it("gives the shard of one who dies to another, as soon as one is free", () => {
    const job = new Job();
    job.heard();
    job.dies("c1");
    expect(job.heard()).toEqual([]);
    job.wrote("c2", [3]);
    expect(job.heard()).toEqual(["c2 4: 2"]);
    job.wrote("c0", [1]);
    job.wrote("c2", [2]);
    expect(job.heard()).toEqual(["c0 4: seal"]);
  });

  it("is finished by those who have its bytes when the job has gone on meanwhile", () => {
    const job = new Job();
    job.heard();
    job.commits(5);
    job.wrote("c0", [1]);
    job.dies("c1");
    expect(job.heard()).toEqual(["c0 4: 2"]);
    // Who comes new has nothing of it.
    job.state = { ...job.state, members: { ...job.state.members, c3: memberOf("c3", 9) } };
    job.plan();
    expect(job.heard()).toEqual([]);
    job.wrote("c2", [3]);
    job.wrote("c0", [2]);
    expect(job.heard()).toEqual(["c0 4: seal"]);
    // What the orders say of the step is what it was when it was committed.
    for (const body of job.bodies)
      expect(body).toMatchObject({ sections: job.bodies[0]?.sections, ledger: job.bodies[0]?.ledger });
    job.sealed("c0");
    expect(job.saved).toBe(4);
  });

  it("is finished before a newer one is begun, so that one is whole however often they are due; the last one does not wait", () => {
    const job = new Job();
    job.heard();
    job.wrote("c0", [1]);
    job.wrote("c2", [3]);
    for (const step of [5, 6, 7, 8]) job.commits(step);
    expect(job.heard()).toEqual([]);
    job.wrote("c1", [2]);
    job.sealed("c0");
    expect(job.saved).toBe(4);
    expect(job.heard()).toEqual(["c0 4: seal", "c0 8: 1", "c1 8: 2", "c2 8: 3"]);
    job.wrote("c0", [1], 8);
    job.commits(20);
    expect(job.heard()).toEqual(["c0 20: 1,2,3"]);
  });

  it("gives way to the newest version when nobody has its bytes any more", () => {
    const job = new Job();
    job.heard();
    job.commits(5);
    job.dies("c1");
    job.dies("c0", "c2");
    expect(job.heard()).toEqual([]);
    job.state = { ...job.state, members: { ...job.state.members, c3: memberOf("c3", 9) } };
    job.plan();
    expect(job.heard()).toEqual(["c3 5: 1,2,3"]);
  });

  it("is sealed by another when the one who was to do it dies, and the shards are not written again", () => {
    const job = new Job();
    for (const [i, id] of ["c0", "c1", "c2"].entries()) job.wrote(id, [i + 1]);
    job.heard();
    job.commits(5);
    job.dies("c0");
    expect(job.heard()).toEqual(["c1 4: seal"]);
    job.dies("c1", "c2");
    job.state = { ...job.state, members: { ...job.state.members, c3: memberOf("c3", 9) } };
    job.plan();
    expect(job.heard()).toEqual(["c3 4: seal"]);
  });

  it("is begun anew when it can not be sealed, and goes on when only a shard failed", () => {
    const job = new Job();
    job.wrote("c0", [1]);
    job.failed("c1");
    expect(job.heard()).toEqual(["c0 4: 1", "c1 4: 2", "c2 4: 3", "c0 4: 2"]);
    job.wrote("c0", [2]);
    job.wrote("c2", [3]);
    expect(job.heard()).toEqual(["c0 4: seal"]);
    job.failed("c0", { shardsMissing: true });
    expect(job.state.checkpoints.set?.done).toEqual([]);
    expect(job.heard()).toEqual(["c2 4: 1,2,3"]);
  });

  it("is sealed by another when a disk has no room for the seal, and begun anew when one seal after another fails", () => {
    const job = new Job();
    for (const [i, id] of ["c0", "c1", "c2"].entries()) job.wrote(id, [i + 1]);
    job.heard();
    job.failed("c0", { full: { folder: "/c", freeBytes: 0, neededBytes: 9 } });
    expect(job.heard()).toEqual(["c1 4: seal"]);
    expect(job.state.checkpoints.set?.done).toEqual([1, 2, 3]);
    job.failed("c1");
    expect(job.heard()).toEqual(["c2 4: seal"]);
    job.failed("c2");
    expect(job.state.checkpoints.set).toBeUndefined();
  });

  it("stays when a seal of an older one fails", () => {
    const job = new Job();
    for (const [i, id] of ["c0", "c1", "c2"].entries()) job.wrote(id, [i + 1]);
    expect(job.heard().at(-1)).toBe("c0 4: seal");
    const { set: older, ...checkpoints } = job.state.checkpoints;
    job.state = { ...job.state, checkpoints: { ...checkpoints, set: { ...older!, step: 20, version: 20, done: [2] } } };
    job.failed("c0", { shardsMissing: true });
    expect(job.state.checkpoints.set).toMatchObject({ step: 20, done: [2] });
  });

  it("is not sealed because of a word on no shard at all from the one who is to seal it", () => {
    const job = new Job();
    for (const [i, id] of ["c0", "c1", "c2"].entries()) job.wrote(id, [i + 1]);
    expect(job.heard().at(-1)).toBe("c0 4: seal");
    const { order } = job.state.members.c0!;
    job.wrote("c0", []);
    expect(job.state.members.c0!.order).toBe(order);
    expect(job.heard()).toEqual([]);
  });

  it("goes on as it was dealt when another controller takes over, with the version of a step before, too", () => {
    const job = new Job();
    job.wrote("c0", [1]);
    job.dies("c1");
    job.heard();
    // As the new controller finds them: c2 has not answered, and comes last.
    const tookOver = (): void => {
      for (const member of membersOf(job.state, "checkpoint"))
        if (member.order) job.state = withMember(job.state, member.id, { order: null, owed: member.order });
      job.state = { ...job.state, members: { c1: memberOf("c1", 9), ...job.state.members } };
    };
    tookOver();
    job.plan();
    expect(job.heard().sort()).toEqual(["c0 4: 2", "c2 4: 3"]);
    job.commits(5);
    tookOver();
    job.plan();
    expect(job.heard().sort()).toEqual(["c0 4: 2", "c2 4: 3"]);
    job.wrote("c2", [3]);
    job.state = withMember(job.state, "c1", { retryAtMs: 99_999 });
    job.state = withMember(job.state, "c2", { retryAtMs: 99_999 });
    job.wrote("c0", [2]);
    expect(job.heard()).toEqual(["c0 4: seal"]);
    for (const id of ["c1", "c2"]) job.state = withMember(job.state, id, { retryAtMs: 0 });
    tookOver();
    job.plan();
    expect(job.heard()).toEqual(["c0 4: seal"]);
  });

  it.each<[string, Record<string, readonly number[]>, readonly number[], readonly string[]]>([
    ["all that nobody else was told", { c0: [2], c1: [1, 3] }, [], ["c0 4: 2", "c1 4: 1,3"]],
    ["none that another one goes on with", { c0: [2], c1: [2, 3] }, [], ["c0 4: 2", "c1 4: 1", "c2 4: 3"]],
    ["none that is durable", { c0: [2], c1: [3] }, [2], ["c0 4: 1", "c1 4: 3"]],
    ["none where it was told to seal", { c0: [] }, [], ["c0 4: 1", "c1 4: 2", "c2 4: 3"]],
  ])("after an election whoever was told shards goes on with %s", (_, told, done, said) => {
    const { sections, holders, groupsWatermark, ledger } = new Job().bodies[0] as Body<"checkpoint.save">;
    const rest = { sections, holders, groupsWatermark, ledger };
    const set = { step: 4, lineage: 0, version: 4, of: 3, done, by: [], told: rest };
    const state = Object.entries(told).reduce(
      (next, [id, write]) =>
        withMember(next, id, {
          owed: { kind: "checkpoint.save", lineage: 0, version: 4, write: [...write], dueAtMs: 9e9 } as never,
        }),
      wanting(),
    );
    const job = new Job({ ...state, checkpoints: { ...state.checkpoints, set } });
    expect(job.heard().sort()).toEqual(said);
  });

  it("is the last one of the job: its end waits for a shard that is written again, and for the seal", () => {
    const job = new Job(lastWanted());
    expect(job.heard()).toEqual(["c0 20: 1", "c1 20: 2", "c2 20: 3"]);
    job.at(40_000);
    job.wrote("c0", [1], 20);
    job.wrote("c2", [3], 20);
    job.dies("c1");
    expect(job.heard()).toEqual(["c0 20: 2"]);
    job.at(61_000);
    expect(planEnd(job.state)).toBeNull();
    job.at(80_000);
    job.wrote("c0", [2], 20);
    expect(job.heard()).toEqual(["c0 20: seal"]);
    job.sealed("c0", 20);
    expect(job.saved).toBe(20);
    expect(planEnd(job.state)?.state.ending).toMatchObject({ outcome: "done", reason: "all steps are committed" });
  });

  it("is given up with the job's end when nothing of it comes on", () => {
    const job = new Job(lastWanted());
    job.at(61_000);
    expect(planEnd(job.state)?.state.ending?.reason).toContain("could not be made durable");
  });

  it("is whole when every shard of this line is durable and no newer one counts", () => {
    const job = new Job();
    for (const [i, id] of ["c0", "c1"].entries()) job.wrote(id, [i + 1]);
    expect(isSetWhole(job.state)).toBe(false);
    job.wrote("c2", [3]);
    const { state } = job;
    expect(isSetWhole(state)).toBe(true);
    const { weights, checkpoints } = state;
    expect(isSetWhole({ ...state, weights: weights && { ...weights, lineage: 1 } })).toBe(false);
    const counts = (step: number) => ({ ...checkpoints, saved: { step, version: step, path: "/c", host: "h" } });
    expect([3, 4].map((step) => isSetWhole({ ...state, checkpoints: counts(step) }))).toEqual([true, false]);
  });

  it("gets twice the time of a checkpoint with each shard that comes, and with none that is there already", () => {
    const job = new Job();
    const { plan: of, nowMs } = job.state;
    job.state = { ...job.state, checkpoints: { ...job.state.checkpoints, dueAtMs: 0 } };
    const set = job.state.checkpoints.set as NonNullable<ControllerState["checkpoints"]["set"]>;
    const before = { ...job.state, checkpoints: { ...job.state.checkpoints, set: { ...set, done: [1] } } };
    const body = { step: 4, lineage: 0, version: 4, shards: { of: 3, write: [1] }, bytes: 1, durationMs: 1 };
    const wrote = (state: ControllerState, of = 3) =>
      applyShardsSaved(
        state,
        reportFrom(state, "c0", { kind: "shards.saved", body: { ...body, shards: { of, write: [1] } } }),
      ).state.checkpoints;
    expect(wrote(job.state)).toMatchObject({ dueAtMs: nowMs + 2 * of.timing.checkpointMs, set: { done: [1] } });
    expect(wrote(before).dueAtMs).toBe(0);
    expect(wrote(job.state, 5).set?.done, "of a checkpoint in more parts").toEqual([]);
    const newer = { ...job.state, checkpoints: { ...job.state.checkpoints, set: { ...set, version: 6 } } };
    expect(wrote(newer).set?.done).toEqual([]);
  });

  it("takes no word for a shard from one who was not told to write it", () => {
    const job = new Job();
    job.wrote("c0", [1, 2, 3]);
    job.wrote("c0", [2]);
    job.wrote("c0", []);
    job.wrote("c1", [2], 3);
    expect(job.state.checkpoints.set?.done).toEqual([]);
    job.wrote("c0", [1]);
    job.wrote("c0", [1]);
    expect(job.state.checkpoints.set?.done).toEqual([1]);
  });

  it("is forgotten when the job goes back", () => {
    const job = new Job();
    job.wrote("c0", [1]);
    const { state } = goBack(job.state, "everybody is lost");
    expect(state.checkpoints.set).toBeUndefined();
  });
});

it("older checkpoints go although only one host has said of a newer one that it is there: the hosts share its folder", () => {
  const hosts = { c0: "a", c1: "b", c2: "c" };
  const placed = Object.entries(hosts).reduce((next, [id, host]) => withMember(next, id, { host }), wanting());
  const kept = (step: number) => ({ step, version: step, path: `/c/${step}`, host: "a" });
  const state = {
    ...placed,
    checkpoints: { ...placed.checkpoints, saved: kept(4) },
    fallback: { ...placed.fallback, older: [kept(3), kept(2), kept(1)] },
  };
  expect(pinsOf({ ...state, plan: { ...plan, checkpointKeep: 2 } })).toEqual({ pinned: "/c/4" });
});

/** The last step is committed and is to be durable within a minute. */
function lastWanted(): ControllerState {
  const slow = { ...plan, timing: { ...plan.timing, checkpointMs: 60_000 } };
  const state = working({ plan: slow, version: 20, members: ["p0", "r0", "c0", "c1", "c2"], patch: { nowMs: 0 } });
  return { ...state, checkpoints: { ...state.checkpoints, wantedStep: 20, dueAtMs: 60_000 } };
}

function without(state: ControllerState, ...ids: readonly string[]): ControllerState["members"] {
  return Object.fromEntries(Object.entries(state.members).filter(([id]) => !ids.includes(id)));
}
