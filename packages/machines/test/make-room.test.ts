/** A groups stream that no checkpoint empties: what nobody needs goes, and stored results are given up for the step that is next. */
import { describe, expect, it } from "vitest";
import { planRoom } from "../src/controller/groups/make-room.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, working } from "./states.ts";

const saved = { step: 3, version: 3, path: "/c", host: "h" };
const heldBack = { sinceMs: 1_000, untilMs: 100_000 };

/** Step 4 waits for results, every committed step is in a checkpoint, and somebody has waited for room long enough. */
function stuck(patch: Partial<ControllerState> = {}): ControllerState {
  const state = working({ members: ["p0", "r0", "c0"] });
  const groups = { 4: groupsOf(4, 1), 5: groupsOf(5, 4), 6: groupsOf(6, 2) };
  const checkpoints = { ...state.checkpoints, saved };
  const nowMs = heldBack.sinceMs + state.plan.timing.commandMs;
  return { ...state, groups, checkpoints, heldBack, purgedSeq: 400, nowMs, ...patch };
}

const waiting = (state: ControllerState | undefined, step: number) =>
  state?.groups[step]?.queue.map(({ index }) => index).sort();
const settled = (state: ControllerState | undefined, step: number) => Object.keys(state?.groups[step]?.receipts ?? {});

describe("when the next step has no room in the groups stream", () => {
  it("the older half of what is stored for later steps is sampled again, with what lies in front of it, and the stream is emptied so far", () => {
    const change = planRoom(stuck());
    // Step 5 lies at 500 to 503, step 6 at 600 and 601: 503 is the first of the newer half.
    expect(waiting(change?.state, 5)).toEqual([0, 1, 2, 3]);
    expect(settled(change?.state, 6)).toEqual(["0", "1"]);
    expect(settled(change?.state, 4)).toEqual([]);
    expect(change?.effects).toContainEqual({ type: "groups.purge", beforeSeq: 504 });
    expect(change?.state.purgedSeq).toBe(504);
    expect(bodiesOf(change?.effects ?? [], "alarm.raised")[0]?.detail).toMatch(
      /^step 4 has no room in the groups stream, and no checkpoint makes any: 5 stored results are given up/,
    );
  });

  it("its own oldest results make room where there is nothing of later steps", () => {
    const change = planRoom(stuck({ groups: { 4: groupsOf(4, 3) } }));
    expect(settled(change?.state, 4)).toEqual(["2"]);
    expect(change?.state.purgedSeq).toBe(402);
  });

  it("responses that were begun in front of it are begun anew, and keep nothing in the stream", () => {
    const item = { purpose: "train" as const, step: 6, index: 3, attempt: 0 };
    const leases = {
      "1-1": { holder: "r0", items: [{ ...item, partial: { streamSeq: 450, tokens: 7 } }], dueAtMs: 9_000 },
    };
    const queued = { index: 2, attempt: 0, partial: { streamSeq: 451, tokens: 7 } };
    const groups = { ...stuck().groups, 6: { ...groupsOf(6, 2), queue: [queued] } };
    const change = planRoom(stuck({ leases, groups }));
    expect(change?.state.leases["1-1"]?.items).toEqual([item]);
    expect(change?.state.groups[6]?.queue).toEqual([{ index: 2, attempt: 0 }]);
    expect(change?.state.purgedSeq).toBe(504);
  });

  it("what is saved of unfinished responses goes before any result does, where it lies in front of all of them", () => {
    const item = { purpose: "train" as const, step: 4, index: 3, attempt: 0 };
    const held = (streamSeq: number): ControllerState["leases"] => ({
      "1-1": { holder: "r0", items: [{ ...item, partial: { streamSeq, tokens: 7 } }], dueAtMs: 9_000 },
    });
    const change = planRoom(stuck({ groups: { 4: groupsOf(4, 0) }, leases: held(450) }));
    expect(change?.state.leases["1-1"]?.items).toEqual([item]);
    expect(change?.state.purgedSeq).toBe(451);
    expect(bodiesOf(change?.effects ?? [], "alarm.raised")[0]?.detail).toMatch(/what is saved of 1 unfinished groups/);
    const both = planRoom(stuck({ groups: { 4: groupsOf(4, 0), 5: groupsOf(5, 4) }, leases: held(450) }));
    expect(both?.state.purgedSeq).toBe(451);
    expect(settled(both?.state, 5)).toHaveLength(4);
    // Behind a result it makes no room, and what is gone already makes none either.
    expect(settled(planRoom(stuck({ leases: held(650) }))?.state, 5)).toHaveLength(0);
    expect(planRoom(stuck({ groups: { 4: groupsOf(4, 0) }, leases: held(450), purgedSeq: 451 }))).toBeNull();
  });

  it("the save that a result goes on from stays, and one at the beginning of the stream goes", () => {
    const item = { purpose: "train" as const, step: 4, index: 3, attempt: 0 };
    const held = (streamSeq: number): ControllerState["leases"] => ({
      "1-1": { holder: "r0", items: [{ ...item, partial: { streamSeq, tokens: 7 } }], dueAtMs: 9_000 },
    });
    const beside = planRoom(stuck({ groups: { 4: groupsOf(4, 0), 5: groupsOf(5, 1) }, leases: held(500) }));
    expect(bodiesOf(beside?.effects ?? [], "alarm.raised")[0]?.detail).toMatch(/1 stored results are given up/);
    const first = planRoom(stuck({ groups: { 4: groupsOf(4, 0) }, leases: held(1), purgedSeq: 0 }));
    expect(first?.state.purgedSeq).toBe(2);
  });

  it("a single result of a later step goes before those of the next one", () => {
    const change = planRoom(stuck({ groups: { 4: groupsOf(4, 3), 5: groupsOf(5, 1) }, purgedSeq: 0 }));
    expect(settled(change?.state, 5)).toEqual([]);
    expect(change?.state.purgedSeq).toBe(501);
  });

  it("nothing goes in front of which history lies that is trained again", () => {
    const history = { 3: [{ ...groupsOf(3, 1).receipts[0], streamSeq: 400 }] } as unknown as ControllerState["history"];
    expect(planRoom(stuck({ history }))).toBeNull();
  });

  it("before anything was ever emptied, results go where nothing of unfinished responses is saved", () => {
    const change = planRoom(stuck({ purgedSeq: 0 }));
    expect(bodiesOf(change?.effects ?? [], "alarm.raised")[0]?.detail).toMatch(/5 stored results are given up/);
    expect(change?.state.purgedSeq).toBe(504);
    expect(planRoom(stuck({ purgedSeq: 0, groups: { 4: groupsOf(4, 0) } }))).toBeNull();
  });

  it("nothing is given up while a checkpoint may make room, the step has all it needs, or nobody has waited", () => {
    const { checkpoints, step, nowMs } = stuck();
    expect(planRoom(stuck({ checkpoints: { ...checkpoints, saved: { ...saved, step: 2 } } }))).toBeNull();
    const first = { checkpoints: { ...checkpoints, saved: null }, groups: { 2: groupsOf(2, 1) } };
    expect(planRoom(stuck({ ...first, step: { ...step, step: 2 }, purgedSeq: 0 }))).toBeNull();
    expect(planRoom(stuck({ groups: { ...stuck().groups, 4: groupsOf(4, 4) } }))).toBeNull();
    expect(planRoom(stuck({ step: { ...step, state: "running" } }))).toBeNull();
    expect(planRoom(stuck({ nowMs: nowMs - 1 }))).toBeNull();
    expect(planRoom(stuck({ heldBack: null }))).toBeNull();
  });

  it("that ends after eight times for one step: the stream is too small for it, and the watchdog says so", () => {
    expect(planRoom(stuck({ roomMade: { step: 4, times: 7 } }))?.state.roomMade).toEqual({ step: 4, times: 8 });
    expect(planRoom(stuck({ roomMade: { step: 4, times: 8 } }))).toBeNull();
    expect(planRoom(stuck({ roomMade: { step: 3, times: 8 } }))?.state.roomMade).toEqual({ step: 4, times: 1 });
  });
});

describe("what lies in the groups stream and is needed by nobody", () => {
  const { nowMs, plan } = stuck();
  const filled = (patch: Partial<ControllerState["groupsFill"] & object> = {}) => ({
    ...{ bytes: 100, bytesMax: 100, lastSeq: 490, atMs: nowMs - plan.timing.commandMs },
    ...patch,
  });

  it("makes room before anything is given up, as far as the stream was seen and nothing points to it", () => {
    const seen = planRoom(stuck({ groups: { 4: groupsOf(4, 0), 5: groupsOf(5, 4) }, groupsFill: filled() }));
    expect(settled(seen?.state, 5)).toHaveLength(4);
    expect(seen?.state).toMatchObject({ purgedSeq: 491, heldBack: { sinceMs: nowMs } });
    expect(seen?.state.roomMade).toBeUndefined();
    expect(seen?.effects).toContainEqual({ type: "groups.purge", beforeSeq: 491 });
    const all = planRoom(
      stuck({ groups: { 4: groupsOf(4, 0), 5: groupsOf(5, 4) }, groupsFill: filled({ lastSeq: 600 }) }),
    );
    expect(all?.state.purgedSeq).toBe(500);
  });

  it("goes although a checkpoint is still to come, and when nothing at all is stored that somebody knows", () => {
    const { checkpoints } = stuck();
    const behind = { ...checkpoints, saved: { ...saved, step: 2 } };
    expect(planRoom(stuck({ checkpoints: behind, groups: {}, groupsFill: filled() }))?.state.purgedSeq).toBe(491);
  });

  it("stays while its reports may be on their way, where history is trained again from it, and when it is gone already", () => {
    const groups = { 4: groupsOf(4, 0) };
    const history = { 3: [{ ...groupsOf(3, 1).receipts[0], streamSeq: 400 }] } as unknown as ControllerState["history"];
    expect(planRoom(stuck({ groups, groupsFill: filled({ atMs: nowMs - plan.timing.commandMs + 1 }) }))).toBeNull();
    expect(planRoom(stuck({ groups, history, groupsFill: filled() }))).toBeNull();
    expect(planRoom(stuck({ groups, purgedSeq: 491, groupsFill: filled() }))).toBeNull();
    expect(planRoom(stuck({ groups, groupsFill: { bytes: 100, bytesMax: 100 } }))).toBeNull();
    const { checkpoints } = stuck();
    const unpurged = stuck({ purgedSeq: 0, groups, checkpoints: { ...checkpoints, saved: { ...saved, step: 2 } } });
    expect(planRoom({ ...unpurged, groupsFill: filled({ atMs: nowMs - 1 }) })).toBeNull();
    expect(planRoom({ ...unpurged, groupsFill: filled() })?.state.purgedSeq).toBe(491);
  });
});
