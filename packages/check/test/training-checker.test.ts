import { toGroupsBatch } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { TrainingChecker } from "../src/training-checker.ts";
import { decisionOf, Trial } from "./support/decisions.ts";

const trajectory = {
  tokens: Int32Array.of(1, 2, 3),
  promptLength: 1,
  logprobs: Float32Array.of(-1, -2),
  lossMask: Uint8Array.of(1, 1),
  reward: 0,
  status: "completed" as const,
  segments: [{ version: 0, from: 0, to: 2 }],
};
const group = { groupId: "1.0", step: 1, index: 0, attempt: 0, trajectories: [trajectory, trajectory] };
const sampler = { name: "r0#1", node: "r0", role: "rollout", isDead: false };

const state = {
  ...{ restore: { lineage: 0 }, weights: null, mesh: { epoch: 2 } },
  step: { step: 1, attempt: 3, state: "running" },
};

/** What is found when a trainer says that it can not read a group which was stored as message 7. */
function foundOf(vote: object = {}, before: object = state, how = {}): readonly string[] {
  const trial = new Trial();
  const checker = new TrainingChecker(trial.judge, { stalenessMax: 0, batch: { groupSize: 2 } }, how);
  checker.serving(sampler, 0, "d");
  checker.stored(toGroupsBatch([group]), 7, sampler);
  const unreadable = [{ streamSeq: 7, groupIds: ["1.0"] }];
  const body = { step: 1, attempt: 3, epoch: 2, vote: "abort", unreadable, ...vote };
  checker.decided(decisionOf("step.voted", before, before, { incarnation: "p0-i1", body }));
  return trial.broken;
}

describe("a group that was stored whole", () => {
  it("can be read by whoever computes the step (S15)", () => {
    expect(foundOf()).toEqual(["S15"]);
  });

  it("may be what nobody ever stored, under that number or name", () => {
    expect(foundOf({ unreadable: [{ streamSeq: 8, groupIds: ["1.0"] }] })).toEqual([]);
    expect(foundOf({ unreadable: [{ streamSeq: 7, groupIds: ["1.1"] }] })).toEqual([]);
    expect(foundOf({ unreadable: [] })).toEqual([]);
  });

  it("may be gone for an attempt that is over", () => {
    for (const old of [{ step: 0 }, { attempt: 2 }, { epoch: 1 }]) expect(foundOf(old)).toEqual([]);
    expect(foundOf({}, { ...state, step: { ...state.step, state: "sampling" } })).toEqual([]);
  });

  it("may be unreadable where replicas lie, and where what is stored may come in part", () => {
    expect(foundOf({}, state, { isHonest: false })).toEqual([]);
    expect(foundOf({}, state, { isReadable: false })).toEqual([]);
  });
});
