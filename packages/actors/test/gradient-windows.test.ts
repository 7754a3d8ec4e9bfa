/** A step on the real data plane gives the same bits whether a gradient is seen whole or through windows. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openGradientMesh } from "@muster/collectives";
import { digestOf } from "@muster/collectives/internal";
import type { GradientMemory, PolicyEngine, TrainSample } from "@muster/engine";
import { readGradient, writeGradient } from "@muster/engine/internal";
import type { JobConfig, TrajectoryGroup } from "@muster/protocol";
import { expect, it, onTestFinished } from "vitest";
import { computeStep } from "../src/policy/compute-step.ts";

const elements = 1_000;
const microShards = 4;
const config = {
  ...{ seed: 1, steps: 10, batch: { groupsPerStep: 4, groupSize: 2, minibatches: 2, microShards } },
  ...{ loss: { clipLow: 0.2, clipHigh: 0.2 }, sampling: { temperature: 1 }, timing: { collectiveMs: 20_000 } },
  optimizer: { lr: 0.5, lrWarmupSteps: 0, lrFinalRatio: 1 },
} as unknown as JobConfig;

const groups = Array.from({ length: 8 }, (_, index): TrajectoryGroup => {
  const trajectories = [0, 1].map((reward) => ({
    ...{ tokens: Int32Array.from({ length: 6 }, (_, i) => index + i + reward), promptLength: 2 },
    ...{ logprobs: new Float32Array(4), lossMask: new Uint8Array(4).fill(1) },
    ...{ reward, status: "completed" as const, segments: [{ version: 0, from: 0, to: 4 }] },
  }));
  return { groupId: `2.${index}`, step: 2, index, attempt: 0, trajectories };
});

/** A trainer whose gradient depends on every sample and element, and which remembers the sums that it was given. */
function engineOf(sums: string[], sizes: Set<number>): PolicyEngine {
  const noted = (memory: GradientMemory): GradientMemory => {
    for (const { values } of memory.windows()) sizes.add(values.length);
    return memory;
  };
  return {
    info: () => ({ gradientElements: elements }),
    begin: () => {},
    accumulate: async (samples: readonly TrainSample[], { out }: { readonly out: GradientMemory }) => {
      const gradient = new Float32Array(elements);
      for (const { tokens, advantage } of samples)
        for (let i = 0; i < elements; i++) gradient[i]! += Math.fround(Math.sin(i * tokens[0]! + advantage) / 3);
      writeGradient(noted(out), gradient);
      return { tokens: 1, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0 };
    },
    stage: async (gradient: GradientMemory) => {
      const sum = new Float32Array(elements);
      readGradient(noted(gradient), sum);
      sums.push(digestOf(new Uint8Array(sum.buffer)));
      return { gradNorm: 1, finite: true };
    },
  } as unknown as PolicyEngine;
}

/** A step of two ranks. @returns The sums that their engines were given, and the sizes of the windows. */
async function stepOf(epoch: number, windowMax?: number) {
  const socketDir = mkdtempSync(join(tmpdir(), "muster-windows-"));
  onTestFinished(() => rmSync(socketDir, { recursive: true, force: true }));
  const { signal } = new AbortController();
  const members = ["one", "other"];
  const mesh = { key: new Uint8Array(32).fill(7), job: "windows", epoch, members, socketDir, shards: microShards };
  const sizes = new Set<number>();
  const all = await Promise.all(
    members.map(async (_, rank) => {
      const sums: string[] = [];
      const own = await openGradientMesh({ ...mesh, rank, shardElements: elements, deadlineMs: 20_000, signal });
      onTestFinished(() => own.close());
      let op = 0;
      const tools = {
        config,
        groups,
        signal,
        nextOp: () => ++op,
        onShard: () => {},
        clock: { now: () => 0, after: () => () => {} },
      };
      await computeStep({
        ...tools,
        engine: engineOf(sums, sizes),
        mesh: own,
        step: 2,
        ...(windowMax ? { windowMax } : {}),
      });
      return sums;
    }),
  );
  return { all, sizes: [...sizes].sort((a, b) => a - b) };
}

it("sums of gradients in windows have the bits of those in one piece, on each rank", async () => {
  const whole = await stepOf(1);
  expect(whole.sizes).toEqual([elements]);
  expect(whole.all[0]).toHaveLength(2);
  expect(whole.all[1]).toEqual(whole.all[0]);
  expect(new Set(whole.all[0]).size).toBe(2);
  const windows = await stepOf(2, 300);
  expect(windows.sizes).toEqual([100, 300]);
  expect(windows.all).toEqual(whole.all);
});
