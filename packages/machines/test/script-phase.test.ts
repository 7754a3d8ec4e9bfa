/** A job in the words of a multi-node script: each phase from a table, and who is waited for. */
import { expect, test } from "vitest";
import { initialControllerState, withMember } from "../src/controller/state.ts";
import { scriptPhaseOf } from "../src/phases/script-phase.ts";
import { planWith, working } from "./states.ts";

const dueAtMs = 1_000;
const lease = (holder: string, ...items: unknown[]) => ({ holder, items: items as never, dueAtMs });
const group = (index: number) => ({ purpose: "train", step: 4, index, attempt: 1 });

test("0: replicas that training needs are counted, and then the first weights are made", () => {
  const state = initialControllerState(planWith({ initReplicas: { policy: 2, rollout: 1 } }));
  expect(scriptPhaseOf(state)).toEqual({
    phases: [0, 0],
    says: "gather the replicas that training begins with",
    waitsFor: ["policy: 0 of 2 are there", "rollout: 0 of 1 are there"],
    more: 0,
  });
  const order = { kind: "weights.initialize", lineage: 0, version: 0, dueAtMs } as const;
  const seeding = withMember({ ...working(), weights: null }, "p0", { order });
  expect(scriptPhaseOf(seeding)).toMatchObject({ phases: [0, 0], waitsFor: ["p0: weights.initialize"] });
  expect(scriptPhaseOf({ ...seeding, restore: { ...seeding.restore, lineage: 1 } })).toMatchObject({
    phases: [0, 0],
    says: "restore the weights",
    waitsFor: ["rollout: 1 of 2 are there", "p0: weights.initialize"],
  });
});

test("1 to 4: samplers with groups on lease; at most sixteen are named, the others counted", () => {
  const state = working({ patch: { leases: { a: lease("r0", group(0), group(1)), b: lease("r0", group(2)) } } });
  expect(scriptPhaseOf(state)).toMatchObject({ phases: [1, 4], waitsFor: ["r0: 3 of training on lease"], more: 0 });
  const leases = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`l${i}`, lease(`r${i}`, group(i))]));
  const crowded = scriptPhaseOf(working({ patch: { leases } }));
  expect([crowded.waitsFor.length, crowded.more]).toEqual([16, 4]);
});

test("1 to 4: with nothing on lease yet, and with an evaluation beside the sampling, whose samplers are named last", () => {
  expect(scriptPhaseOf(working())).toMatchObject({
    phases: [1, 4],
    says: "sample step 4 and collect its groups",
    waitsFor: [],
  });
  const evaluation = { version: 3, queue: [], settled: [], attempts: {}, chunks: 2, prompts: 0, correct: 0 };
  const leases = { a: lease("r1", { purpose: "eval", chunk: 0, from: 0, count: 4 }), b: lease("r0", group(0)) };
  expect(scriptPhaseOf(working({ patch: { evaluation, leases } }))).toMatchObject({
    phases: [1, 4],
    waitsFor: ["r0: 1 of training on lease", "r1: 1 of evaluation on lease"],
  });
});

test("5 and 6: only the evaluation is out", () => {
  const evaluation = { version: 3, queue: [], settled: [], attempts: {}, chunks: 2, prompts: 0, correct: 0 };
  const leases = { a: lease("r0", { purpose: "eval", chunk: 0, from: 0, count: 4 }) };
  expect(scriptPhaseOf(working({ patch: { evaluation, leases } }))).toMatchObject({
    phases: [5, 6],
    says: "evaluate version 3",
    waitsFor: ["r0: 1 of evaluation on lease"],
  });
});

test("7 to 9: trainers that have not joined the mesh; 10: those that have not voted", () => {
  const state = working();
  const building = { ...state, mesh: { ...state.mesh, state: "building" as const, built: ["p1"] } };
  expect(scriptPhaseOf(building)).toMatchObject({ phases: [7, 9], waitsFor: ["p0"] });
  const running = { ...state, step: { ...state.step, state: "running" as const, votes: { p0: {} as never } } };
  expect(scriptPhaseOf(running)).toMatchObject({ phases: [10, 10], waitsFor: ["p1"] });
});

test("11 and 12: who has the new weights to apply or to pull", () => {
  const order = { kind: "step.apply", lineage: 0, version: 4, dueAtMs } as const;
  const state = withMember(withMember(working(), "p1", { order }), "r0", { order: { ...order, kind: "weights.pull" } });
  expect(scriptPhaseOf(state)).toMatchObject({ phases: [11, 12], waitsFor: ["p1: step.apply", "r0: weights.pull"] });
});

test("13: who has not left yet", () => {
  const ending = { outcome: "done", reason: "", announced: true } as const;
  expect(scriptPhaseOf(working({ patch: { ending } }))).toMatchObject({
    phases: [13, 13],
    waitsFor: ["p0", "p1", "r0"],
  });
  expect(scriptPhaseOf(working({ patch: { ending, stopped: true } })).waitsFor).toEqual([]);
});
