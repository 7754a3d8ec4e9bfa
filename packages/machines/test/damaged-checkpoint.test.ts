/** What becomes of a job whose newest checkpoint can not be restored (reliability H3, S24 – S26). */
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { applySaved } from "../src/controller/checkpoints/apply-checkpoint.ts";
import { noteDamage } from "../src/controller/checkpoints/damaged-checkpoint.ts";
import { pinsOf } from "../src/controller/checkpoints/fallback.ts";
import { planCheckpoint } from "../src/controller/checkpoints/plan-checkpoint.ts";
import { planRestore } from "../src/controller/checkpoints/plan-restore.ts";
import { imbalanceOf, ledgerOf } from "../src/controller/groups/ledger.ts";
import { type ControllerState, withMember } from "../src/controller/state.ts";
import { applyFailed } from "../src/controller/weights/apply-weights.ts";
import { planInitialWeights } from "../src/controller/weights/plan-weights.ts";
import { bodiesOf, memberOf, planWith, receiptOf, reportFrom, working } from "./states.ts";

const plan = planWith({ checkpointEverySteps: 2, checkpointKeep: 3, steps: 9 });
const corrupt = { kind: "corrupt", reason: "model.safetensors does not have the sha-256 of the manifest" } as const;

/** Groups of a committed step; one index of step 3 was given up. */
const receiptsOf = (step: number) => [0, 1, 2, 3].filter((i) => step !== 3 || i !== 2).map((i) => receiptOf(step, i));

const saved = (
  state: ControllerState,
  step: number,
  by = "c0",
  path = `/c/${step}`,
  manifestDigest = "m",
): ControllerState => {
  const body = { step, lineage: 0, version: step, path, manifestDigest, bytes: 1, durationMs: 1 };
  return applySaved(state, reportFrom(state, by, { kind: "checkpoint.saved", body })).state;
};

/** Seven steps are committed, and those of 2, 4 and 6 are durable; nobody holds the weights any more, and p9 could take over. */
function lost(steps: readonly number[] = [2, 4, 6], patch: Partial<ControllerState> = {}): ControllerState {
  const history = Object.fromEntries([1, 2, 3, 4, 5, 6, 7].map((step) => [step, receiptsOf(step)]));
  const ledger = { admitted: 56, trained: 54, aborted: 0, quarantined: 2 };
  const start = working({ plan, version: 7, members: ["r0", "c0", "c1"], patch: { history, ledger, ...patch } });
  const kept = steps.reduce((state, step) => saved(state, step), start);
  return { ...kept, members: { ...kept.members, p9: memberOf("p9", 9) } };
}

/** The restore begins, and its replica says that it can not be done. */
function fails(state: ControllerState, damage: Body<"weights.failed">["damage"], host = "h") {
  const ordered = planInitialWeights(withMember(planRestore(state)?.state ?? state, "p9", { host }));
  const { lineage, version } = ordered?.state.restore ?? { lineage: 0, version: 0 };
  const body = { lineage, version, cause: "damaged", ...(damage ? { damage } : {}) };
  const asked = ordered?.state as ControllerState;
  return applyFailed(asked, reportFrom(asked, "p9", { kind: "weights.failed", body }));
}

const again = (state: ControllerState): ControllerState => withMember(state, "p9", { retryAtMs: 0 });
const alarmsOf = (effects: Parameters<typeof bodiesOf>[0]): readonly string[] =>
  effects.flatMap((effect) =>
    effect.type === "announce" && effect.kind === "alarm.raised" ? [`${effect.body.alarm}: ${effect.body.detail}`] : [],
  );

describe("a checkpoint that is damaged when it is to be restored", () => {
  it("is named with its damage, and the job goes back to the one before it, in a new lineage", () => {
    const { state, effects } = fails(lost(), corrupt);
    expect(alarmsOf(effects)).toEqual([
      `damaged-checkpoint: checkpoint 6 can not be restored on h: ${corrupt.reason}`,
      "rollback: checkpoint 6 is damaged; going back to step 4 in lineage 2",
    ]);
    const manifest = { manifestDigests: ["m"] };
    expect(state.restore).toEqual({
      lineage: 2,
      version: 4,
      source: { kind: "checkpoint", path: "/c/4", ...manifest },
    });
    expect(state.checkpoints.saved).toMatchObject({ step: 4 });
    expect(state.fallback.damaged).toEqual([{ path: "/c/6", reason: corrupt.reason, host: "h" }]);
    expect(state.ending).toBeNull();
  });

  it("has its steps sampled again where their trajectories are purged, and trained again where they are not", () => {
    const { state } = fails(lost(), corrupt);
    expect(state.step).toMatchObject({ step: 5, state: "sampling" });
    expect(Object.keys(state.groups)).toEqual(["5", "6", "7"]);
    expect(state.groups[5]?.queue.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    expect(state.groups[7]?.queue).toEqual([]);
    expect(Object.keys(state.groups[7]?.receipts ?? {})).toHaveLength(4);
  });

  it("leaves the ledger whole, and what was given up stays so", () => {
    const before = lost();
    expect(imbalanceOf(ledgerOf(before))).toBe(0);
    const once = fails(before, corrupt).state;
    expect(ledgerOf(once)).toEqual({ admitted: 56, trained: 30, aborted: 0, quarantined: 2, pending: 24 });
    const twice = fails(again(once), corrupt).state;
    expect(twice.step.step).toBe(3);
    expect(twice.groups[3]).toMatchObject({ quarantined: [2], receipts: {} });
    expect(twice.groups[3]?.queue.map(({ index }) => index)).toEqual([0, 1, 3]);
    expect(twice.groups[3]?.queue.map(({ attempt }) => attempt)).toEqual([0, 0, 0]);
    expect(twice.step).toMatchObject({ attempt: 1, failures: 0 });
    expect(ledgerOf(twice)).toEqual({ admitted: 56, trained: 16, aborted: 0, quarantined: 2, pending: 38 });
  });

  it("costs nothing when another checkpoint actor has written the same one", () => {
    const { state } = fails(saved(lost(), 6, "c1", "/d/6"), corrupt);
    expect(state.restore).toMatchObject({ version: 6, source: { path: "/d/6" } });
    expect(state.step.step).toBe(7);
    expect(state.groups[7]?.queue).toEqual([]);
  });

  it("ends the job at once when there is no other, and all of them are named", () => {
    let { state } = fails(lost(), corrupt);
    state = fails(again(state), { kind: "gone", reason: "its folder is not there" }).state;
    expect(state.ending).toBeNull();
    state = fails(again(state), corrupt).state;
    expect(state.ending).toEqual({
      outcome: "failed",
      reason: `no checkpoint is left that can be restored: 2: ${corrupt.reason}; 4: its folder is not there; 6: ${corrupt.reason}`,
      announced: false,
    });
  });

  it("is told of in sentences of 1,600 characters at most, in which each cause has 160", () => {
    const long = { kind: "corrupt", reason: "x".repeat(2_000) } as const;
    const one = fails(lost([6]), long);
    expect(bodiesOf(one.effects, "alarm.raised")[0]?.detail).toHaveLength(1_600);
    expect(one.state.ending?.reason).toBe(`no checkpoint is left that can be restored: 6: ${"x".repeat(160)}`);
    const before = Array.from({ length: 15 }, (_, i) => ({ path: `/c/${i}`, reason: long.reason }));
    const { fallback } = lost();
    const { state } = fails(lost([6], { fallback: { ...fallback, damaged: before } }), long);
    expect(state.ending?.reason).toHaveLength(1_600);
  });

  it("is no news while the job ends, or begins with something else", () => {
    const state = planRestore(lost())?.state as ControllerState;
    const by = memberOf("p9", 9);
    expect(noteDamage(state, by, corrupt)).not.toBeNull();
    expect(
      noteDamage({ ...state, ending: { outcome: "failed", reason: "", announced: false } }, by, corrupt),
    ).toBeNull();
    const restore = { ...state.restore, source: state.plan.weights };
    expect(noteDamage({ ...state, restore }, by, corrupt)).toBeNull();
  });

  it("gives way to what is kept in memory where that is newer than the one before it", () => {
    const kept = { step: 5, lineage: 0, version: 5, sections: [] };
    const memory = { held: kept, asked: null, retryAtMs: 0, failures: 0, isTooLarge: false, misses: 0 };
    const { state } = fails(withMember(lost(), "c0", { addresses: ["unix:c0"], memory }), corrupt);
    expect(state.restore).toMatchObject({ lineage: 2, version: 5, source: { kind: "memory" } });
    expect(state.checkpoints.saved).toMatchObject({ step: 4 });
  });

  it("is remembered with the newest sixteen", () => {
    const before = Array.from({ length: 16 }, (_, i) => ({ path: `/c/${i - 20}`, reason: "" }));
    const { fallback } = lost();
    const { state } = fails(lost(undefined, { fallback: { ...fallback, damaged: before } }), corrupt);
    expect(state.fallback.damaged).toEqual([...before.slice(1), { path: "/c/6", reason: corrupt.reason, host: "h" }]);
  });

  it("is asked of others when it is only not there for a replica of another host, or could not be read now", () => {
    for (const { state } of [fails(lost(), { kind: "gone", reason: "" }, "elsewhere"), fails(lost(), undefined)]) {
      expect(state.restore).toMatchObject({ lineage: 1, version: 6 });
      expect(state.fallback.damaged).toEqual([]);
      expect(state.members.p9).toMatchObject({ order: null, retryAtMs: 1_200 });
    }
  });

  it("is restored from a copy of another name where only the host of that copy is there to do it", () => {
    const copied = saved(
      withMember(withMember(lost(), "c0", { host: "a" }), "c1", { host: "b" }),
      6,
      "c1",
      "/c/6-again",
    );
    const away = {
      ...copied,
      checkpoints: { ...copied.checkpoints, saved: { ...copied.checkpoints.saved, host: "a" } },
    };
    const { state, effects } = fails(away as ControllerState, { kind: "gone", reason: "" }, "b");
    expect(state.restore).toMatchObject({ lineage: 2, version: 6, source: { path: "/c/6-again" } });
    expect(state.checkpoints.saved).toMatchObject({ path: "/c/6-again", host: "b" });
    expect(state.fallback).toMatchObject({
      older: [{ path: "/c/6", host: "a" }, { step: 4 }, { step: 2 }],
      damaged: [],
    });
    expect(alarmsOf(effects)).toEqual([
      "rollback: checkpoint 6 is not on b, which has 6-again of the same version; going back to step 6 in lineage 2",
    ]);
    expect(state.step.step).toBe(7);
    // Nothing is gained where that host has no copy.
    expect(fails(away as ControllerState, { kind: "gone", reason: "" }, "c").state.restore).toMatchObject({
      lineage: 1,
    });
  });

  it("is of no account any more when there are weights", () => {
    const asked = planInitialWeights(planRestore(lost())?.state as ControllerState)?.state as ControllerState;
    const body = { lineage: 1, version: 6, cause: "late", damage: corrupt };
    const { weights } = lost();
    const { state } = applyFailed({ ...asked, weights }, reportFrom(asked, "p9", { kind: "weights.failed", body }));
    expect(state.checkpoints.saved).toMatchObject({ step: 6 });
  });
});

describe("what a job can go back to", () => {
  it("is restored by a replica of the host where it was written, if there is one", () => {
    const back = planRestore(withMember(lost(), "c0", { host: "h" }))?.state as ControllerState;
    const members = { ...back.members, p8: memberOf("p8", 8, { host: "elsewhere" }) };
    const [order] = planInitialWeights({ ...back, members })?.effects ?? [];
    expect(order).toMatchObject({ to: "p9" });
  });

  it("is named with the digests of at most 64 copies, which is what one message holds", () => {
    const state = lost();
    const { saved: newest } = state.checkpoints;
    const copies = Array.from({ length: 100 }, (_, i) => ({ ...newest, manifestDigest: `m${i}` }) as never);
    const back = planRestore({ ...state, fallback: { ...state.fallback, older: copies } })?.state.restore.source;
    const manifestDigests = ["m", ...Array.from({ length: 63 }, (_, i) => `m${i}`)];
    expect(back).toEqual({ kind: "checkpoint", path: "/c/6", manifestDigests });
  });

  it("is as many versions as retention keeps, and the counts of the steps between them", () => {
    const { checkpoints, fallback } = lost([1, 2, 4, 6]);
    expect([checkpoints.saved, ...fallback.older].map((kept) => kept?.path)).toEqual(["/c/6", "/c/4", "/c/2"]);
    expect(Object.keys(fallback.covered)).toEqual(["3", "4", "5", "6"]);
    expect(fallback.covered[3]).toEqual({ completed: 6, aborted: 0, givenUp: [2] });
  });

  it("is the one before the newest even where retention keeps but one", () => {
    const { fallback } = lost([2, 4, 6], { plan: { ...plan, checkpointKeep: 1 } });
    expect(fallback.older.map(({ path }) => path)).toEqual(["/c/4"]);
  });

  it("is the last to go before another host has a newer one, as long as there are checkpoint actors on two", () => {
    const two = lost([]);
    const apart = withMember(withMember(two, "c0", { host: "h0" }), "c1", { host: "h1" });
    const alone = [1, 2, 3, 4, 5, 6].reduce((state, step) => saved(state, step), apart);
    expect(alone.fallback.older.map(({ step }) => step)).toEqual([5, 4, 3, 2, 1]);
    const copied = saved(alone, 5, "c1");
    expect(copied.fallback.older.map(({ step, host }) => `${step} ${host}`).slice(0, 3)).toEqual([
      "5 h1",
      "5 h0",
      "4 h0",
    ]);
    const next = saved(copied, 7);
    expect(next.fallback.older.map(({ step }) => step)).toEqual([6, 5, 5]);
    const gone = saved(
      { ...alone, members: Object.fromEntries(Object.entries(alone.members).filter(([id]) => id !== "c1")) },
      7,
    );
    expect(gone.fallback.older.map(({ step }) => step)).toEqual([6, 5]);
    // Where retention keeps one, those that only one host has stay nevertheless.
    const few = { ...copied, plan: { ...plan, checkpointKeep: 1 } };
    expect(saved(few, 7).fallback.older.map(({ step }) => step)).toEqual([6, 5, 5]);
  });

  it("is pinned in 64 versions at most", () => {
    const apart = withMember(withMember(lost([]), "c0", { host: "h0" }), "c1", { host: "h1" });
    const older = Array.from({ length: 100 }, (_, i) => ({
      step: 200 - i,
      version: 200 - i,
      path: `/o/${i}`,
      host: "h0",
    }));
    const newest = { step: 201, version: 201, path: "/o/new", host: "h0" };
    const state = {
      ...apart,
      checkpoints: { ...apart.checkpoints, saved: newest },
      fallback: { ...apart.fallback, older },
    };
    expect(pinsOf(state)).toMatchObject({ pinned: "/o/new", fallbacks: older.slice(0, 63).map(({ path }) => path) });
  });

  it("is pinned as far as it will be needed once one more is written", () => {
    const state = { ...lost(), step: { ...lost().step, step: 9 }, weights: { ...lost().weights, version: 8 } };
    const holder = memberOf("p9", 9, { held: { lineage: 0, version: 8 } });
    let job = { ...state, members: { ...state.members, p9: holder } } as ControllerState;
    const bodies: Body<"checkpoint.save">[] = [];
    for (let change = planCheckpoint(job); change; change = planCheckpoint(job)) {
      bodies.push(...bodiesOf(change.effects, "checkpoint.save"));
      job = change.state;
    }
    expect(bodies[0]).toMatchObject({ step: 8, pinned: "/c/6", fallbacks: ["/c/4"] });
  });
});

/** Two hosts have a disk each, with a folder of one name: h has the newest as the controller knows it, and h2 a copy of its own. */
function onTwoDisks(steps: readonly number[] = [2, 4, 6]): ControllerState {
  return saved(withMember(lost(steps), "c1", { host: "h2" }), 6, "c1", "/c/6", "m2");
}

const holdsOf = ({ checkpoints, fallback }: ControllerState): readonly string[] =>
  [checkpoints.saved, ...fallback.older].map((copy) => `${copy?.step} on ${copy?.host}`);

describe("a checkpoint that each host has on a disk of its own", () => {
  it("is given up on the host that finds it damaged, and restored from the other one", () => {
    const { state } = fails(onTwoDisks(), corrupt, "h");
    expect(holdsOf(state)).toEqual(["6 on h2", "4 on h", "2 on h"]);
    expect(state.restore).toMatchObject({ version: 6, source: { path: "/c/6", manifestDigests: ["m2"] } });
  });

  it("is still there on the first host when it is the other one whose copy is damaged", () => {
    const { state } = fails(onTwoDisks(), corrupt, "h2");
    expect(holdsOf(state)).toEqual(["6 on h", "4 on h", "2 on h"]);
    expect(state.restore).toMatchObject({ version: 6, source: { path: "/c/6", manifestDigests: ["m"] } });
  });

  it("stays when the same host says so again while a trainer on the other host can be asked", () => {
    const once = again(fails(onTwoDisks(), corrupt, "h").state);
    const other = { ...once, members: { ...once.members, p8: { ...memberOf("p8", 8), host: "h2", retryAtMs: 9_999 } } };
    const { state } = fails(other, corrupt, "h");
    expect(holdsOf(state)).toEqual(["6 on h2", "4 on h", "2 on h"]);
    expect(state.restore).toEqual(once.restore);
  });

  it("gives way to an older one that can be read when no trainer is on the other host", () => {
    const once = again(fails(onTwoDisks(), corrupt, "h").state);
    expect(holdsOf(fails(once, corrupt, "h").state)).toEqual(["4 on h", "2 on h"]);
  });

  it("is waited for when it is the only one left: its good copy is no reason to end the job", () => {
    const once = again(fails(onTwoDisks([6]), corrupt, "h").state);
    const { state } = fails(once, corrupt, "h");
    expect(holdsOf(state)).toEqual(["6 on h2"]);
    expect(state.ending).toBeNull();
  });
});

describe("a host that has no copy of the checkpoint itself", () => {
  const read = (manifestDigest: string) => ({ ...corrupt, manifestDigest });

  it("strikes out no copy when what it read has another manifest: it is asked of others", () => {
    for (const host of ["elsewhere", "h2"]) {
      const { state } = fails(onTwoDisks(), read("stale"), host);
      expect(holdsOf(state)).toEqual(["6 on h", "6 on h2", "4 on h", "2 on h"]);
      expect(state.fallback.damaged).toEqual([]);
    }
  });

  it("strikes out none either when it can not say what it read, while a trainer on the host of a copy can be asked", () => {
    const two = onTwoDisks();
    const other = { ...two, members: { ...two.members, p8: { ...memberOf("p8", 8), host: "h2", retryAtMs: 9_999 } } };
    expect(holdsOf(fails(other, corrupt, "elsewhere").state)).toEqual(["6 on h", "6 on h2", "4 on h", "2 on h"]);
    // Where nobody is, an older one is better than to wait, and its host is of no use.
    const third = saved(withMember(two, "c1", { host: "h3" }), 4, "c1", "/c/4", "m3");
    const away = {
      ...third,
      members: { ...third.members, p8: { ...memberOf("p8", 8), host: "h3", retryAtMs: 9_999 } },
    };
    expect(holdsOf(fails(away, corrupt, "elsewhere").state)).toEqual(["6 on h2", "4 on h3", "4 on h", "2 on h"]);
    expect(holdsOf(fails(two, corrupt, "elsewhere").state)).toEqual(["6 on h2", "4 on h", "2 on h"]);
  });

  it("strikes out the very copy that it read, in a folder that it shares with its writer", () => {
    expect(holdsOf(fails(onTwoDisks(), read("m2"), "elsewhere").state)).toEqual(["6 on h", "4 on h", "2 on h"]);
  });
});

it("a copy that has another manifest now than its own host reported is gone from there", () => {
  const { state } = fails(onTwoDisks(), { ...corrupt, manifestDigest: "stale" }, "h");
  expect(holdsOf(state)).toEqual(["6 on h2", "4 on h", "2 on h"]);
});

it("a folder that two hosts share is given up for both at once", () => {
  const shared = saved(withMember(lost(), "c1", { host: "h2" }), 6, "c1");
  expect(holdsOf(shared)).toEqual(["6 on h", "6 on h2", "4 on h", "2 on h"]);
  expect(holdsOf(fails(shared, corrupt, "elsewhere").state)).toEqual(["4 on h", "2 on h"]);
});
