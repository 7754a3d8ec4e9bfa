/** A full groups stream: results wait with their samplers, and nobody is to blame. */
import { describe, expect, it } from "vitest";
import { planCheckpoint } from "../src/controller/checkpoints/plan-checkpoint.ts";
import { control } from "../src/controller/control.ts";
import { applyHeldGroups, planHeldOutput } from "../src/controller/groups/held-output.ts";
import { releaseHolder, releaseLease } from "../src/controller/groups/leases.ts";
import { fillLevelOf, isFillNews } from "../src/controller/groups/stream-room.ts";
import { planOverdue } from "../src/controller/orders.ts";
import { planWatchdog } from "../src/controller/plan-watchdog.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, reportFrom, working } from "./states.ts";

const train = (index: number) => ({ purpose: "train" as const, step: 4, index, attempt: 0 });
const dueAtMs = 9_000;
const leases = {
  "1-1": { holder: "r0", items: [train(0)], dueAtMs },
  "1-2": { holder: "r1", items: [train(1)], dueAtMs },
};
const start = (patch: Partial<ControllerState> = {}): ControllerState =>
  working({
    members: ["p0", "r0", "r1", "c0"],
    patch: { leases, groups: { 4: { ...groupsOf(4, 0), queue: [] } }, ...patch },
  });
const held = (state: ControllerState, from = "r0") =>
  applyHeldGroups(state, reportFrom(state, from, { kind: "groups.held", body: { leaseId: "1-1", reason: "no room" } }));
const at = (state: ControllerState, nowMs: number): ControllerState => ({ ...state, nowMs });
const alarmsIn = (effects: Parameters<typeof bodiesOf>[0]) =>
  bodiesOf(effects, "alarm.raised").filter(({ alarm }) => alarm === "groups-full");

describe("a holder whose results a full stream does not take", () => {
  it("keeps its lease as long as it says so, and only then", () => {
    const { leaseMs } = start().plan.timing;
    const { state } = held(at(start(), dueAtMs - 1));
    expect(state.leases["1-1"]?.dueAtMs).toBe(dueAtMs - 1 + leaseMs);
    const after = planOverdue(at(state, dueAtMs));
    expect(Object.keys(after?.state.leases ?? {})).toEqual(["1-1"]);
    expect(Object.keys(planOverdue(at(state, dueAtMs + leaseMs))?.state.leases ?? {})).toEqual([]);
  });

  it("gets the room of what may be gone: a purge that failed is asked for again", () => {
    const purges = (purgedSeq: number) =>
      held(start({ purgedSeq })).effects.flatMap((effect) => (effect.type === "groups.purge" ? effect.beforeSeq : []));
    expect(purges(301)).toEqual([301]);
    expect(purges(1)).toEqual([1]);
    expect(purges(0)).toEqual([]);
  });

  it("is taken to wait for half of a lease after its last word, and says why in at most 2,000 characters", () => {
    const state = start();
    const body = { leaseId: "1-1", reason: "no room ".repeat(400) };
    const change = applyHeldGroups(state, reportFrom(state, "r0", { kind: "groups.held", body }));
    expect(change.state.heldBack).toEqual({
      sinceMs: state.nowMs,
      untilMs: state.nowMs + state.plan.timing.leaseMs / 2,
    });
    expect(alarmsIn(change.effects)[0]?.detail).toHaveLength(2_000);
    const over = planHeldOutput(at(change.state, state.nowMs + state.plan.timing.leaseMs / 2));
    expect(alarmsIn(over?.effects ?? [])[0]?.detail).toContain(`after at most ${state.plan.timing.leaseMs / 2} ms`);
  });

  it("is told that a checkpoint makes room from the first trained step on", () => {
    const at = (step: number) => {
      const state = start();
      return alarmsIn(held({ ...state, step: { ...state.step, step } }).effects)[0]?.detail;
    };
    expect(at(1)).toMatch(/steps that are not trained yet/);
    expect(at(2)).toMatch(/a checkpoint of step 1 is ordered/);
  });

  it("says nothing of the leases of others", () => {
    const state = start();
    expect(held(state, "r1")).toEqual({ state, effects: [] });
  });

  it("is told to the operator once, with what makes room, and so is the end of it", () => {
    const first = held(start());
    const [told, ...more] = alarmsIn(first.effects);
    expect(more).toEqual([]);
    expect(told?.detail).toMatch(
      /^r0 waits with its results: no room; a checkpoint of step 3 is ordered, which makes room/,
    );
    const again = held(at(first.state, first.state.nowMs + 1));
    expect(alarmsIn(again.effects)).toEqual([]);
    expect(planHeldOutput(again.state)).toBeNull();
    const over = planHeldOutput(at(again.state, again.state.heldBack?.untilMs ?? 0));
    expect(over?.state.heldBack).toBeNull();
    expect(alarmsIn(over?.effects ?? [])[0]?.detail).toMatch(/^over: /);
  });

  it("is told why nothing makes room where nothing does", () => {
    const { plan, checkpoints } = start();
    const without = start({ plan: { ...plan, checkpointReplicas: 0 } });
    expect(alarmsIn(held(without).effects)[0]?.detail).toMatch(/the job has none: give the stream more room/);
    const saved = { step: 3, version: 3, path: "/c", host: "h" };
    const covered = start({ checkpoints: { ...checkpoints, saved } });
    expect(alarmsIn(held(covered).effects)[0]?.detail).toMatch(/steps that are not trained yet/);
    const short = start({ plan: { ...plan, checkpointQuorum: 2 } });
    expect(alarmsIn(held(short).effects)[0]?.detail).toMatch(
      /no checkpoint makes room: checkpoint\.quorum = 2 hosts must have it, .* start "muster checkpoint" on another host$/,
    );
  });

  it("has a checkpoint ordered, however rarely there is one", () => {
    const { plan } = start();
    const rare = start({ plan: { ...plan, checkpointEverySteps: 0 } });
    expect(planCheckpoint(rare)).toBeNull();
    expect(planCheckpoint(held(rare).state)?.state.checkpoints.wantedStep).toBe(3);
  });

  it("is evicted by no watchdog, which ends the job with that cause when nothing helps", () => {
    const { progressMs } = start().plan.health;
    const { state } = held(start());
    const stuck = (stage: number) =>
      planWatchdog({
        ...at(state, state.progress.atMs + (stage + 1) * progressMs),
        progress: { ...state.progress, stage, isShort: false },
      });
    for (const stage of [0, 1, 2, 3]) {
      const change = stuck(stage);
      expect(change?.state).toMatchObject({ members: state.members, leases: state.leases, ending: null });
      expect(bodiesOf(change?.effects ?? [], "alarm.raised")[0]?.detail).toMatch(/the groups stream is full$/);
    }
    expect(stuck(4)?.state.ending?.reason).toMatch(/it waited for room in the groups stream/);
  });

  it("blames no group that waits for nothing but room when it ends, and the others as ever", () => {
    const items = [train(0), train(1)];
    const two = start({ leases: { "1-1": { holder: "r0", items, dueAtMs } } });
    const body = { leaseId: "1-1", reason: "no room", items: [train(0)] };
    const { state } = applyHeldGroups(two, reportFrom(two, "r0", { kind: "groups.held", body }));
    const why = { reason: "r0 died", failure: "engine_crash" } as const;
    for (const { state: next } of [releaseHolder(state, { ...why, holder: "r0" }), releaseLease(state, "1-1", why)]) {
      const attempts = next.groups[4]?.queue.map(({ index, attempt }) => [index, attempt]);
      expect(attempts?.sort()).toEqual([
        [0, 0],
        [1, 1],
      ]);
    }
  });

  it("is heard by the controller as a report of its member", () => {
    const state = start();
    const { state: next } = control(
      state,
      reportFrom(state, "r0", { kind: "groups.held", body: { leaseId: "1-1", reason: "no room" } }),
    );
    expect(next.heldBack).toMatchObject({ sinceMs: state.nowMs });
  });
});

describe("a groups stream that fills", () => {
  const filled = (state: ControllerState, bytes: number) =>
    control(state, { type: "controller.filled", atMs: state.nowMs, bytes, bytesMax: 100 });
  const { plan } = start();
  const rare = start({ plan: { ...plan, checkpointEverySteps: 0 } });

  it("has a checkpoint ordered from three quarters on, before anybody has to wait", () => {
    expect(filled(rare, 74).state.checkpoints.wantedStep).toBeNull();
    const { state, effects } = filled(rare, 75);
    expect(state.checkpoints.wantedStep).toBe(3);
    expect(alarmsIn(effects)).toEqual([]);
    expect(alarmsIn(held(state).effects)[0]?.detail).toMatch(/it held 75 B of 100 B/);
  });

  it("has none ordered once there is room again", () => {
    const { state } = filled({ ...rare, groupsFill: { bytes: 90, bytesMax: 100 } }, 20);
    expect(state.checkpoints.wantedStep).toBeNull();
  });

  it("is told to the operator once where the job has nobody who makes room", () => {
    const alone = start({ plan: { ...plan, checkpointReplicas: 0 } });
    const { state, effects } = filled(alone, 80);
    expect(alarmsIn(effects).map(({ detail }) => detail)).toEqual([
      expect.stringMatching(/80 B of 100 B.*no checkpoint makes room because the job has none/),
    ]);
    expect(alarmsIn(filled(state, 95).effects)).toEqual([]);
  });

  it("passes a mark at three quarters and at nine tenths, and none where nothing bounds it", () => {
    const levels = [0, 74, 75, 89, 90, 100].map((bytes) => fillLevelOf({ bytes, bytesMax: 100 }));
    expect(levels).toEqual([0, 0, 1, 1, 2, 2]);
    expect(fillLevelOf({ bytes: 100, bytesMax: null })).toBe(0);
  });

  it("is news when it passes a mark, and above the last mark with each message that it takes", () => {
    const fill = (bytes: number, lastSeq?: number) => ({ bytes, bytesMax: 100, ...(lastSeq ? { lastSeq } : {}) });
    expect(isFillNews(undefined, fill(74, 7))).toBe(false);
    expect(isFillNews(undefined, fill(75, 7))).toBe(true);
    expect(isFillNews(fill(75, 7), fill(89, 8))).toBe(false);
    expect(isFillNews(fill(90, 7), fill(90, 7))).toBe(false);
    expect(isFillNews(fill(90, 7), fill(95, 8))).toBe(true);
    expect(isFillNews(fill(95, 8), fill(80, 8))).toBe(true);
  });

  it("is remembered with its newest message and when that was seen", () => {
    const event = { type: "controller.filled", atMs: rare.nowMs + 5, bytes: 80, bytesMax: 100 } as const;
    expect(control(rare, { ...event, lastSeq: 9 }).state.groupsFill).toEqual({
      ...{ bytes: 80, bytesMax: 100, lastSeq: 9, atMs: rare.nowMs + 5 },
    });
    expect(control(rare, event).state.groupsFill).toEqual({ bytes: 80, bytesMax: 100 });
  });
});
