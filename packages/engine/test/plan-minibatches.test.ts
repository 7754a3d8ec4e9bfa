import { randomOf, shuffled } from "@muster/base";
import type { Trajectory, TrajectoryGroup } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { planMinibatches } from "../src/index.ts";

function trajectory(reward: number, change: Partial<Trajectory> = {}): Trajectory {
  return {
    tokens: Int32Array.of(1, 2, 3, 4),
    promptLength: 2,
    logprobs: Float32Array.of(-1, -2),
    lossMask: Uint8Array.of(1, 1),
    reward,
    status: "completed",
    segments: [{ version: 0, from: 0, to: 2 }],
    ...change,
  };
}

const placeholder = (): Trajectory =>
  trajectory(0, {
    tokens: Int32Array.of(0, 0),
    promptLength: 1,
    logprobs: Float32Array.of(0),
    lossMask: Uint8Array.of(0),
    status: "aborted",
    segments: [],
  });

function group(index: number, trajectories: readonly Trajectory[]): TrajectoryGroup {
  return { groupId: `4.${index}`, step: 4, index, attempt: 0, trajectories };
}

/** Groups whose samples can be told apart by their first token. */
const groups = Array.from({ length: 9 }, (_, index) =>
  group(
    index,
    [0, 1, 1, index % 2].map((reward, i) => trajectory(reward, { tokens: Int32Array.of(10 * index + i, 2, 3, 4) })),
  ),
);
const options = { seed: 7, step: 4, minibatches: 2, microShards: 4 };

describe("the plan of a step", () => {
  it("does not depend on the order in which groups arrive", () => {
    const plan = planMinibatches(groups, options);
    expect(planMinibatches(shuffled(groups, randomOf(1)), options)).toEqual(plan);
    expect(planMinibatches([...groups].reverse(), options)).toEqual(plan);
  });

  it("uses each sample once and deals them to the shards in turn", () => {
    const plan = planMinibatches(groups, options);
    expect(plan.map((batch) => batch.shards.map((shard) => shard.length))).toEqual([
      [5, 5, 4, 4],
      [5, 5, 4, 4],
    ]);
    const seen = plan.flatMap((batch) => batch.shards.flat().map((sample) => sample.tokens[0]));
    expect(new Set(seen).size).toBe(36);
    expect(plan.map((batch) => batch.normalizer)).toEqual([36, 36]);
  });

  it("shuffles differently in each step and for each seed", () => {
    const first = (change: Partial<typeof options>): unknown =>
      planMinibatches(groups, { ...options, ...change })[0]?.shards;
    expect(first({ step: 5 })).not.toEqual(first({}));
    expect(first({ seed: 8 })).not.toEqual(first({}));
  });

  it("drops placeholders and groups without advantage", () => {
    const plan = planMinibatches(
      [
        group(0, [trajectory(1), placeholder(), trajectory(0)]),
        group(1, [trajectory(1), trajectory(1)]),
        group(2, [trajectory(1), placeholder()]),
      ],
      options,
    );
    const samples = plan.flatMap((batch) => batch.shards.flat());
    expect(samples.length).toBe(2);
    expect(samples.map((sample) => Math.sign(sample.advantage)).sort()).toEqual([-1, 1]);
  });

  it("has no minibatch when there is nothing to learn, and none that is empty", () => {
    expect(planMinibatches([], options)).toEqual([]);
    expect(planMinibatches([group(0, [trajectory(1), trajectory(1)])], options)).toEqual([]);
    const few = planMinibatches([group(0, [trajectory(1), trajectory(0)])], { ...options, minibatches: 8 });
    expect(few.map((batch) => batch.shards.flat().length)).toEqual([1, 1]);
  });

  it("counts only tokens in the loss", () => {
    const half = trajectory(1, { lossMask: Uint8Array.of(0, 1) });
    const none = trajectory(0, { lossMask: Uint8Array.of(0, 0) });
    const [batch] = planMinibatches([group(0, [half, trajectory(0), none])], { ...options, minibatches: 1 });
    expect(batch!.normalizer).toBe(3);
    expect(batch!.shards.flat().length).toBe(2);
  });
});
