/** What a trainer says of its share of a step can be said and added up, whatever its engine counts. */

import type { PolicyEngine, ShardStats } from "@muster/engine";
import { figureMax, flawOf, type JobConfig, type StepStats, type TrajectoryGroup } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { computeStep } from "../src/policy/compute-step.ts";

const config = {
  ...{ seed: 1, steps: 10, batch: { groupsPerStep: 2, groupSize: 2, minibatches: 1, microShards: 8 } },
  ...{ loss: { clipLow: 0.2, clipHigh: 0.2 }, sampling: { temperature: 1 }, timing: { collectiveMs: 1000 } },
  optimizer: { lr: 0.5, lrWarmupSteps: 5, lrFinalRatio: 1 },
} as unknown as JobConfig;

const groups = Array.from({ length: 8 }, (_, index): TrajectoryGroup => {
  const trajectories = [0, 1].map((reward) => ({
    ...{
      tokens: new Int32Array(6),
      promptLength: 2,
      logprobs: new Float32Array(4),
      lossMask: new Uint8Array(4).fill(1),
    },
    ...{ reward, status: "completed" as const, segments: [{ version: 0, from: 0, to: 4 }] },
  }));
  return { groupId: `2.${index}`, step: 2, index, attempt: 0, trajectories };
});

/** One rank of a step, on an engine that counts as it is told. */
async function ranked(count: (shard: number) => ShardStats, rank = 0, worldSize = 1): Promise<StepStats> {
  let shard = rank - worldSize;
  const engine = {
    info: () => ({ gradientElements: 1 }),
    begin: () => {},
    accumulate: async () => {
      shard += worldSize;
      return count(shard);
    },
    stage: async () => ({ gradNorm: 0.5, finite: true }),
  } as unknown as PolicyEngine;
  const mesh = { rank, worldSize, shard: () => new Float32Array(1), reduce: async () => new Float32Array(1) } as never;
  const clock = { now: () => 0, after: () => () => {} };
  const { signal } = new AbortController();
  const tools = { engine, mesh, config, clock, signal, nextOp: () => 1, onShard: () => {} };
  return (await computeStep({ ...tools, step: 2, groups })).stats;
}

const awkward = (shard: number): ShardStats => ({
  ...{ tokens: 8, clipped: shard % 2, klSum: 0.1 * shard, entropySum: 1 / 3 + shard, lossSum: -0.7 / (shard + 1) },
});
const voted = (stats: StepStats) =>
  flawOf("step.voted", { step: 2, attempt: 1, epoch: 1, vote: "commit", finite: true, sections: [], stats });

describe("the figures of a rank", () => {
  it("add up to the same, to the last bit, however many ranks there are", async () => {
    const sums = await Promise.all(
      [1, 2, 3, 5, 8].map(async (worldSize) => {
        const parts = await Promise.all(
          Array.from({ length: worldSize }, (_, rank) => ranked(awkward, rank, worldSize)),
        );
        // In another order than they are computed in.
        return [...parts].reverse().reduce(
          (sum, { klSum, entropySum, lossSum, clipped }) => ({
            ...{ klSum: sum.klSum + klSum, entropySum: sum.entropySum + entropySum },
            ...{ lossSum: sum.lossSum + lossSum, clipped: sum.clipped + clipped },
          }),
          { klSum: 0, entropySum: 0, lossSum: 0, clipped: 0 },
        );
      }),
    );
    for (const sum of sums) expect(sum).toEqual(sums[0]);
    expect(sums[0]?.klSum).toBeCloseTo(2.8, 6);
  });

  it("can be said where a ratio has no bound, and say that it has none", async () => {
    const wild = await ranked(() => ({ ...awkward(1), klSum: Number.POSITIVE_INFINITY, lossSum: Number.NaN }));
    expect(wild).toMatchObject({ klSum: figureMax, lossSum: figureMax });
    expect(voted(wild)).toBeNull();
  });

  it("are those of the whole batch besides", async () => {
    const { batch } = await ranked(awkward, 1, 4);
    expect(batch).toMatchObject({ groups: 8, evenGroups: 0, trajectories: 16, longest: 4, rewardSquares: 4, lr: 0.2 });
  });

  it.each([
    [{ tokens: 1.5 }, "tokens = 1.5"],
    [{ tokens: -1 }, "tokens = -1"],
    [{ clipped: 9 }, "clipped = 9; it must be a whole number from 0 to tokens = 8"],
    [{ clipped: Number.NaN }, "clipped = NaN"],
  ])("of an engine that counts %o are refused by name and value", async (patch, message) => {
    await expect(ranked(() => ({ ...awkward(0), ...patch }))).rejects.toThrow(message);
  });
});
