/** When a checkpoint counts: only once as many hosts as the job asks for have it. And what it says of the groups that it covers. */
import { describe, expect, it } from "vitest";
import { applySaved, applySaveFailed } from "../src/controller/checkpoints/apply-checkpoint.ts";
import { isSaveDue, planCheckpoint } from "../src/controller/checkpoints/plan-checkpoint.ts";
import { goBack } from "../src/controller/checkpoints/plan-restore.ts";
import { planQuorum, quorumText } from "../src/controller/checkpoints/quorum.ts";
import type { ControllerEffect } from "../src/controller/events.ts";
import { type ControllerState, withMember } from "../src/controller/state.ts";
import { bodiesOf, groupsOf, planWith, receiptOf, reportFrom, working } from "./states.ts";

const plan = planWith({ checkpointReplicas: 3, checkpointQuorum: 2, checkpointEverySteps: 2, steps: 20 });

/** Step 4 is committed and is to be durable; c0 and c1 share host a, c2 has host b. */
function wanting(patch: Partial<ControllerState> = {}): ControllerState {
  const history = Object.fromEntries([3, 4].map((step) => [step, [0, 1].map((i) => receiptOf(step, i))]));
  const state = working({ plan, version: 4, members: ["p0", "r0", "c0", "c1", "c2"] });
  const hosts = { c0: "a", c1: "a", c2: "b" };
  const placed = Object.entries(hosts).reduce((next, [id, host]) => withMember(next, id, { host }), state);
  const checkpoints = { ...placed.checkpoints, wantedStep: 4 };
  return { ...placed, history, checkpoints, ...patch };
}

function saved(state: ControllerState, by: string, step = 4) {
  const body = { step, lineage: 0, version: step, path: `/c/${step}`, manifestDigest: "m", bytes: 1, durationMs: 1 };
  return applySaved(state, reportFrom(state, by, { kind: "checkpoint.saved", body }));
}

const copyOn = (host: string, step: number) => ({ step, version: step, path: `/c/${step}`, host, manifestDigest: "m" });

const ordered = (state: ControllerState): readonly string[] =>
  (planCheckpoint(state)?.effects ?? []).flatMap((effect) => (effect.type === "command" ? effect.to : []));
const purges = (effects: readonly ControllerEffect[]): readonly number[] =>
  effects.flatMap((effect) => (effect.type === "groups.purge" ? effect.beforeSeq : []));
const without = (state: ControllerState, ...ids: readonly string[]): ControllerState => ({
  ...state,
  members: Object.fromEntries(Object.entries(state.members).filter(([id]) => !ids.includes(id))),
});

describe("a checkpoint with a quorum of two hosts", () => {
  it("does not count while one host has it, however many actors there say so", () => {
    const one = saved(wanting(), "c0");
    const two = saved(one.state, "c1");
    for (const { state, effects } of [one, two]) {
      expect(state.checkpoints.saved).toBeNull();
      expect(Object.keys(state.history)).toEqual(["3", "4"]);
      expect(effects).toEqual([]);
    }
    expect(two.state.checkpoints.copies).toEqual([copyOn("a", 4)]);
  });

  it("counts by copies of the same version, and remembers 64 that do not count", () => {
    const other = { ...copyOn("a", 4), version: 5 };
    const state = wanting({ checkpoints: { ...wanting().checkpoints, copies: [other] } });
    expect(saved(state, "c2").state.checkpoints).toMatchObject({ saved: null, copies: [other, copyOn("b", 4)] });
    const copies = Array.from({ length: 64 }, (_, i) => ({ ...copyOn("a", 4), version: 9, path: `/c/a${i}` }));
    const many = wanting({ checkpoints: { ...wanting().checkpoints, copies } });
    expect(saved(many, "c2").state.checkpoints.copies).toEqual([...copies.slice(1), copyOn("b", 4)]);
  });

  it("counts with the second host: it is announced once, and what it covers may go", () => {
    const { state, effects } = saved(saved(wanting(), "c0").state, "c2");
    expect(state.checkpoints).toMatchObject({ saved: { step: 4, host: "a" }, wantedStep: null });
    expect(state.checkpoints.copies).toBeUndefined();
    expect(state.checkpoints.superseded, "both of them stay").toBeUndefined();
    expect(state.fallback.older).toMatchObject([{ step: 4, host: "b" }]);
    expect(state.history).toEqual({});
    expect(bodiesOf(effects, "checkpoint.kept")).toMatchObject([{ step: 4 }]);
    expect(purges(effects)).toEqual([402]);
  });

  it("is not ordered again from a host that has it, and is from the others", () => {
    expect(ordered(wanting())).toEqual(["c0", "c1", "c2"]);
    expect(ordered(saved(wanting(), "c0").state)).toEqual(["c2"]);
  });

  it("counts with the copy of a host whose actor has died since, and not with one of another lineage", () => {
    const one = saved(wanting(), "c0").state;
    expect(saved(without(one, "c0", "c1"), "c2").state.checkpoints.saved).toMatchObject({ step: 4 });
    const back = goBack(one, "a test").state;
    expect(back.checkpoints.copies).toBeUndefined();
  });

  it("counts late, when a newer one is on one host already, and that one goes on waiting", () => {
    const later = { ...wanting(), step: { ...wanting().step, step: 7 }, weights: { ...wanting().weights, version: 6 } };
    const newer = saved(saved(later as ControllerState, "c0").state, "c0", 6).state;
    const { state } = saved(newer, "c2");
    expect(state.checkpoints.saved).toMatchObject({ step: 4 });
    expect(state.checkpoints.copies).toMatchObject([{ step: 6, host: "a" }]);
    expect(saved(state, "c2", 6).state.checkpoints.saved).toMatchObject({ step: 6 });
  });

  it("is not removed from the host that has it while another one still writes it", () => {
    const pins = (state: ControllerState) =>
      (planCheckpoint(state)?.effects ?? []).flatMap((effect) =>
        effect.type === "command" && effect.kind === "checkpoint.save"
          ? [{ pinned: effect.body.pinned, fallbacks: effect.body.fallbacks }]
          : [],
      )[0];
    const isWriting = saved(planCheckpoint(wanting())?.state as ControllerState, "c0").state;
    const later = (state: ControllerState): ControllerState => ({
      ...state,
      step: { ...state.step, step: 7 },
      checkpoints: { ...state.checkpoints, wantedStep: 6 },
    });
    expect(pins(later(isWriting))).toEqual({ pinned: undefined, fallbacks: ["/c/4"] });
    const counted = { step: 2, version: 2, path: "/c/2", host: "z" };
    const before = { ...isWriting, checkpoints: { ...isWriting.checkpoints, saved: counted } };
    expect(pins(later(before))).toEqual({ pinned: "/c/2", fallbacks: ["/c/4"] });
    // Nobody writes it any more: it can not count, and may go.
    expect(pins(later(withMember(isWriting, "c2", { order: null })))).toEqual({
      pinned: undefined,
      fallbacks: undefined,
    });
  });

  it("raises an alarm once when too few hosts could have it, which names them; and again after there were enough", () => {
    expect(planQuorum(wanting())).toBeNull();
    const short = planQuorum(without(wanting(), "c2"));
    expect(bodiesOf(short?.effects ?? [], "alarm.raised")).toEqual([
      {
        alarm: "checkpoint-quorum",
        detail:
          'the checkpoint of step 4 does not count: checkpoint.quorum = 2 hosts must have it, and of those with a checkpoint actor or a copy there is 1 (a); start "muster checkpoint" on another host',
      },
    ]);
    const said = short?.state as ControllerState;
    expect(planQuorum(said)).toBeNull();
    const lonely = without(wanting(), "c2");
    const wanted = { ...lonely.checkpoints, wantedStep: null };
    expect(planQuorum({ ...lonely, checkpoints: wanted })).toBeNull();
    expect(planQuorum({ ...lonely, plan: { ...plan, checkpointReplicas: 0 } })).toBeNull();
    expect(planQuorum({ ...lonely, plan: { ...plan, checkpointReplicas: 1 } })?.effects).toHaveLength(1);
    const back = planQuorum({ ...said, members: wanting().members });
    expect(back?.effects).toEqual([]);
    expect(planQuorum(without(back?.state as ControllerState, "c2"))?.effects).toHaveLength(1);
  });

  it("is written at its own times, and not at each step, while too few hosts could have it", () => {
    const one = saved(without(wanting(), "c2"), "c0").state;
    const next = (step: number) => ({ ...one, step: { ...one.step, step: step + 1 } });
    expect(planCheckpoint(next(5))).toBeNull();
    expect(planCheckpoint(next(6))?.state.checkpoints.wantedStep).toBe(6);
    const healed = { ...next(5), members: wanting().members };
    expect(planCheckpoint(healed)?.state.checkpoints.wantedStep).toBe(5);
    const copied = { ...next(5), checkpoints: { ...next(5).checkpoints, copies: [copyOn("b", 5)] } };
    expect(planCheckpoint(copied)?.state.checkpoints.wantedStep).toBe(5);
    const elsewhere = { ...next(5), checkpoints: { ...next(5).checkpoints, copies: [copyOn("b", 4)] } };
    expect(planCheckpoint(elsewhere)).toBeNull();
  });
});

describe("two hosts of which one writes a version while the job goes on to the next", () => {
  const everyStep = { plan: { ...plan, checkpointEverySteps: 1 } };
  const saveOf = (state: ControllerState, id: string) => {
    const { order } = state.members[id] ?? {};
    return order?.kind === "checkpoint.save" ? order.version : null;
  };
  /** The state once there is nothing more to order, when `step` is committed. */
  const committed = (state: ControllerState, step: number): ControllerState => {
    const trained = withMember(state, "p0", { held: { lineage: 0, version: step } });
    const weights = { lineage: 0, version: step, sections: state.weights?.sections ?? [] };
    let next: ControllerState = { ...trained, step: { ...state.step, step: step + 1 }, weights };
    for (let change = planCheckpoint(next); change; change = planCheckpoint(next)) next = change.state;
    return next;
  };
  /** Host a writes step 4, and host b comes at step 5. */
  const outOfPhase = (): ControllerState => {
    const one = without(wanting(everyStep), "c1");
    const writing = committed(withMember(one, "c2", { order: { kind: "replica.stop", dueAtMs: 1e9 } }), 4);
    return committed(withMember(writing, "c2", { order: null }), 5);
  };

  it("waits on the host that is free, and then both write the same version, which counts", () => {
    let state = outOfPhase();
    expect([saveOf(state, "c0"), saveOf(state, "c2")]).toEqual([4, null]);
    state = committed(saved(state, "c0").state, 6);
    expect([saveOf(state, "c0"), saveOf(state, "c2")]).toEqual([6, 6]);
    expect(saved(saved(state, "c0", 6).state, "c2", 6).state.checkpoints.saved).toMatchObject({ step: 6 });
  });

  it.each([
    [1, 1],
    [1, 3],
    [2, 2],
    [3, 2],
    [3, 3],
  ])("counts one soon, again and again, when one writes for %d steps and the other for %d", (a, b) => {
    const writes: Readonly<Record<string, number>> = { c0: a, c2: b };
    const begun = new Map([["c0 4", 4]]);
    const counted = new Set<number>();
    let state = outOfPhase();
    for (let step = 5; step < plan.steps; step++) {
      state = committed(state, step);
      for (const [id, steps] of Object.entries(writes)) {
        const version = saveOf(state, id);
        if (version === null) continue;
        const key = `${id} ${version}`;
        begun.set(key, begun.get(key) ?? step);
        if (step + 1 - (begun.get(key) ?? step) >= steps) state = saved(state, id, version).state;
      }
      counted.add(state.checkpoints.saved?.step ?? 0);
    }
    expect(counted.size - 1).toBeGreaterThanOrEqual(Math.floor((plan.steps - 5) / (a + b)));
  });

  it("still waits at the step before the last one", () => {
    const state = committed(outOfPhase(), plan.steps - 1);
    expect([saveOf(state, "c0"), saveOf(state, "c2")]).toEqual([4, null]);
  });

  it("waits for nobody at the last step, and while somebody has the version already", () => {
    const last = committed(outOfPhase(), plan.steps);
    expect([saveOf(last, "c0"), saveOf(last, "c2")]).toEqual([4, plan.steps]);
    const copied = { ...outOfPhase(), checkpoints: { ...outOfPhase().checkpoints, copies: [copyOn("z", 5)] } };
    expect(saveOf(committed(copied, 5), "c2")).toBe(5);
  });

  it("waits for nobody while a full groups stream holds results back: training stands still, so the one that writes comes to this version, too", () => {
    const held = { ...outOfPhase(), heldBack: { sinceMs: 0, untilMs: 1e9 } };
    expect(saveOf(committed(held, 5), "c2")).toBe(5);
    const both = committed(saved(committed(held, 5), "c0").state, 5);
    expect([saveOf(both, "c0"), saveOf(both, "c2")]).toEqual([5, 5]);
  });
});

describe("who takes a checkpoint of a version that only checkpoint actors have", () => {
  it("has it from the others, and from itself where it is the only one", () => {
    const { weights } = wanting();
    const held = { step: 4, lineage: 0, version: 4, sections: weights?.sections ?? [] };
    const memory = { held, asked: null, retryAtMs: 0, failures: 0, isTooLarge: false, misses: 0 };
    const keeping = (...ids: readonly string[]): ControllerState =>
      ids.reduce((next, id) => withMember(next, id, { addresses: [id], memory }), without(wanting(), "p0"));
    const sources = (state: ControllerState) =>
      bodiesOf(planCheckpoint(state)?.effects ?? [], "checkpoint.save").map(({ holders }) =>
        holders.map(({ id }) => id),
      );
    expect(sources(keeping("c0"))).toEqual([["c0"], ["c0"], ["c0"]]);
    expect(sources(keeping("c0", "c1"))).toEqual([["c1"], ["c0"], ["c0", "c1"].reverse()]);
  });
});

describe("a checkpoint that nobody wants", () => {
  const failing = { step: 4, lineage: 0, version: 4, cause: "no space" };

  it("is ordered from nobody in a job without checkpoints, also when an actor says that one has failed", () => {
    const state = wanting({ plan: { ...plan, checkpointReplicas: 0 } });
    const failed = applySaveFailed(state, reportFrom(state, "c0", { kind: "checkpoint.failed", body: failing })).state;
    const later = { ...failed, nowMs: failed.nowMs + 60_000 };
    expect(planCheckpoint(later)).toBeNull();
    expect(ordered({ ...later, plan })).toContain("c0");
    const due = { ...state, checkpoints: { ...state.checkpoints, wantedStep: null } };
    expect([isSaveDue(due), isSaveDue({ ...due, plan })]).toEqual([false, true]);
  });

  it("is not marked as wanted while there are no weights to save", () => {
    const due = wanting({ checkpoints: { ...wanting().checkpoints, wantedStep: null } });
    expect(planCheckpoint(due)?.state.checkpoints.wantedStep).toBe(4);
    expect(planCheckpoint({ ...due, weights: null })).toBeNull();
  });
});

describe("the watermark of a checkpoint", () => {
  const watermark = (state: ControllerState) =>
    (planCheckpoint(state)?.effects ?? []).flatMap((effect) =>
      effect.type === "command" && effect.kind === "checkpoint.save" ? effect.body.groupsWatermark : [],
    )[0];

  it("is the end of the groups that it covers", () => {
    expect(watermark(wanting())).toBe(402);
  });

  it("ends below what a later step points to, be it finished or begun", () => {
    const early = { ...groupsOf(5, 1), receipts: { 0: receiptOf(5, 0, { streamSeq: 390 }) } };
    expect(watermark(wanting({ groups: { 5: early } }))).toBe(390);
    const partial = { streamSeq: 350, firstSeq: 348, version: 3, tokens: 4, samples: 1 } as never;
    expect(watermark(wanting({ groups: { 5: { ...early, queue: [{ index: 1, attempt: 0, partial }] } } }))).toBe(348);
  });

  it("never goes back behind what is purged", () => {
    expect(watermark(wanting({ history: {}, purgedSeq: 77 }))).toBe(77);
    expect(watermark(wanting({ history: {} })), "of a checkpoint that covers no message").toBe(0);
    expect(watermark(wanting({ history: { 4: [receiptOf(4, 0, { streamSeq: 1 })] } }))).toBe(2);
  });
});

it("what a checkpoint lacks names the hosts that there are", () => {
  expect(quorumText(wanting(), 4)).toContain("there is 2 (a, b)");
  expect(quorumText(without(wanting(), "c0", "c1", "c2"), 4)).toContain("there is none");
  const copies = Array.from({ length: 10 }, (_, i) => copyOn(`z${i}`, 4));
  const many = without(wanting({ checkpoints: { ...wanting().checkpoints, copies } }), "c0", "c1", "c2");
  expect(quorumText(many, 4)).toContain("there is 10 (z0, z1, z2, z3, z4, z5, z6, z7 and 2 more)");
});
