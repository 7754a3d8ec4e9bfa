/** What a trainer says of its share of a step can be said and added up, whatever its engine counts. */

import type { PolicyEngine, ShardStats } from "@muster/engine";
import {
  figureMax,
  flawOf,
  type JobConfig,
  type StepStats,
  type TrajectoryGroup,
  trainingDefaults,
} from "@muster/protocol";
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

/** One rank of a step, on an engine that counts as it is told of a shard and a minibatch. */
async function ranked(
  count: (shard: number, minibatch: number) => ShardStats,
  rank = 0,
  worldSize = 1,
  patch: object = {},
): Promise<StepStats> {
  let minibatch = 0;
  const engine = {
    info: () => ({ gradientElements: 1 }),
    begin: () => {},
    accumulate: async (_: unknown, { shard }: { readonly shard: number }) => count(shard, minibatch),
    referenceLogprobs: async (rows: readonly { readonly logprobs: Float32Array }[]) =>
      rows.map(({ logprobs }) => logprobs.map(() => -1)),
    stage: async () => {
      minibatch += 1;
      return { gradNorm: 0.5, finite: true };
    },
  } as unknown as PolicyEngine;
  const mesh = { rank, worldSize, shard: () => new Float32Array(1), reduce: async () => new Float32Array(1) } as never;
  const clock = { now: () => 0, after: () => () => {} };
  const { signal } = new AbortController();
  const tools = { engine, mesh, config: { ...config, ...patch }, clock, signal, nextOp: () => 1, onShard: () => {} };
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
    const far = { logprobGapSum: Number.POSITIVE_INFINITY, logprobGapMax: Number.NaN };
    const gaping = await ranked(() => ({ ...awkward(1), ...far }));
    expect(gaping.logprobGap).toEqual({ tokens: 64, sum: figureMax, max: figureMax });
    expect(voted(gaping)).toBeNull();
  });

  it("are those of the whole batch besides", async () => {
    const { batch } = await ranked(awkward, 1, 4);
    expect(batch).toMatchObject({ groups: 8, evenGroups: 0, trajectories: 16, longest: 4, rewardSquares: 4, lr: 0.2 });
  });

  it("of answers that nobody drew say nothing of how far they are from what was drawn", async () => {
    const far = (shard: number) => ({ ...awkward(shard), klSum: 7, logprobGapSum: 7, logprobGapMax: 7 });
    const training = { ...trainingDefaults, algorithm: "sft" };
    const { klSum, lossSum, logprobGap, batch } = await ranked(far, 0, 1, { training });
    expect([klSum, logprobGap]).toEqual([0, undefined]);
    expect(lossSum).toBeLessThan(-1);
    expect(batch).toMatchObject({ groups: 8, trajectories: 16, longest: 4 });
    expect(voted(await ranked(far, 0, 1, { training }))).toBeNull();
  });

  describe("of log-probabilities", () => {
    const gaping = (shard: number, minibatch: number): ShardStats => ({
      ...awkward(shard),
      ...{ logprobGapSum: 0.1 + shard + 1000 * minibatch, logprobGapMax: 0.7 + 0.01 * shard + 1000 * minibatch },
    });
    const three = { batch: { ...config.batch, minibatches: 3 } };

    it("are those before the first update, to the same last bit however many ranks there are, more than shards too", async () => {
      const wholes = await Promise.all(
        [1, 2, 3, 8, 11].map(async (worldSize) => {
          const parts = await Promise.all(
            Array.from({ length: worldSize }, (_, rank) => ranked(gaping, rank, worldSize, three)),
          );
          for (const part of parts) expect(voted(part)).toBeNull();
          return [...parts].reverse().reduce(
            (whole, { logprobGap }) => ({
              ...{ tokens: whole.tokens + logprobGap!.tokens, sum: whole.sum + logprobGap!.sum },
              max: Math.max(whole.max, logprobGap!.max),
            }),
            { tokens: 0, sum: 0, max: 0 },
          );
        }),
      );
      for (const whole of wholes) expect(whole).toEqual(wholes[0]);
      expect(wholes[0]).toMatchObject({ tokens: 64, max: 0.7 + 0.01 * 7 });
      expect(wholes[0]!.sum).toBeCloseTo(28.8, 6);
    });

    it("are absent where the engine does not count one of the shards", async () => {
      const partly = await ranked((shard, minibatch) => (shard === 3 ? awkward(shard) : gaping(shard, minibatch)));
      expect(partly).not.toHaveProperty("logprobGap");
      const half = await ranked((shard) => ({ ...awkward(shard), logprobGapSum: 1 }));
      expect(half).not.toHaveProperty("logprobGap");
      // What it does not count after the first update is not missed.
      const later = (shard: number, minibatch: number) => (minibatch > 0 ? awkward(shard) : gaping(shard, minibatch));
      expect((await ranked(later, 0, 1, three)).logprobGap?.tokens).toBe(64);
    });
  });

  describe("of a reference policy", () => {
    const under = (klIn: "loss" | "reward") => ({ training: { ...trainingDefaults, klCoefficient: 0.1, klIn } });
    const apart = (shard: number): ShardStats => ({ ...awkward(shard), referenceKlSum: 0.1 * shard });

    it("are sums over all shards where the loss has a divergence, if the engine counts them, and nothing elsewhere", async () => {
      const stats = await ranked(apart, 0, 1, under("loss"));
      expect(stats.referenceKlSum).toBeCloseTo(2.8, 6);
      expect(stats.batch).not.toHaveProperty("referenceKl");
      expect(voted(stats)).toBeNull();
      expect(await ranked(apart)).not.toHaveProperty("referenceKlSum");
      const partly = (shard: number) => (shard === 3 ? awkward(shard) : apart(shard));
      expect(await ranked(partly, 0, 1, under("loss"))).not.toHaveProperty("referenceKlSum");
    });

    it("are the mean over the whole batch where the divergence is taken off the reward", async () => {
      const stats = await ranked(awkward, 0, 1, under("reward"));
      // Drawn with log-probability 0, expected with -1.
      expect(stats.batch?.referenceKl).toBeCloseTo(Math.exp(-1), 9);
      expect(stats).not.toHaveProperty("referenceKlSum");
      expect(voted(stats)).toBeNull();
    });
  });

  it.each([
    [{ logprobGapSum: -1, logprobGapMax: 1 }, "logprobGapSum = -1; it must be 0 or more, or absent"],
    [{ logprobGapSum: 1, logprobGapMax: -1 }, "logprobGapMax = -1; it must be 0 or more, or absent"],
    [{ tokens: 1.5 }, "tokens = 1.5"],
    [{ tokens: -1 }, "tokens = -1"],
    [{ clipped: 9 }, "clipped = 9; it must be a whole number from 0 to tokens = 8"],
    [{ clipped: Number.NaN }, "clipped = NaN"],
  ])("of an engine that counts %o are refused by name and value", async (patch, message) => {
    await expect(ranked(() => ({ ...awkward(0), ...patch }))).rejects.toThrow(message);
  });
});
