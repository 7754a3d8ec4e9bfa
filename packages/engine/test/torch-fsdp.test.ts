/** The trainer in PyTorch as two processes that share the model by FSDP. About 20 s on a quiet machine: three processes import PyTorch. */
import { delimiter } from "node:path";
import { needsOfTask, taskOf } from "@muster/data";
import { type JobConfig, trainingDefaults } from "@muster/protocol";
import { pythonThatRuns } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { PolicyEngine, RankProgram, TrainSample } from "../src/index.ts";
import { inlineState } from "../src/index.ts";
import { copyOf, gradientIn } from "../src/internal.ts";
import { reservePort } from "../src/reserve-port.ts";
import { workerAdapterOf } from "../src/worker/index.ts";
import { pathOf } from "./worker-fixture.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 30_000 });

const python = pythonThatRuns("from torch.distributed.fsdp import fully_shard");
beforeEach((context) => context.skip(python === undefined, "no python3 here has torch 2.6 or newer"));

const folder = pathOf("jobs/warm-start/dates");
// torch needs no numpy, and so the trainer may not either.
const paths = [pathOf("packages/engine/test/support/no-numpy"), pathOf("python")];
const env = { ...process.env, PYTHONPATH: paths.join(delimiter), PYTHONDONTWRITEBYTECODE: "1" };
const adapter = workerAdapterOf(env);
const needs = needsOfTask(taskOf("dates"));
const options = adapter.schema.parse({
  command: `${python} -m muster_worker.torch_grpo --model '${folder}' --rows 2`,
}) as never;
const config = { training: trainingDefaults, weights: { kind: "folder", path: folder } } as unknown as JobConfig;

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
});

/** Rank 0 as Muster sees it, and the other process. */
async function openTwo(): Promise<{ engine: PolicyEngine; second: RankProgram }> {
  const port = await reservePort("127.0.0.1");
  const rankOf = (rank: number) => ({
    ...{ replica: "policy-0", life: 1, rank, size: 2, localRank: rank, localSize: 2, nodeRank: 0 },
    master: { address: "127.0.0.1", port },
  });
  const second = adapter.openRank!(options, { needs, config, rank: rankOf(1) }, "policy");
  const engine = await adapter.openPolicy!(options, { needs, config, rank: rankOf(0) });
  open.push(engine, await second);
  return { engine, second: await second };
}

const samples: readonly TrainSample[] = Array.from({ length: 5 }, (_, i) => ({
  tokens: Int32Array.from({ length: 5 + i }, (_, at) => (7 * i + 3 * at) % 40),
  promptLength: 3,
  logprobs: Float32Array.from({ length: 2 + i }, (_, at) => -1 - ((i + at) % 3)),
  advantage: i % 2 === 0 ? 0.9 : -0.4,
}));

/** One update. @returns What there is to compare. */
async function updateOf(engine: PolicyEngine) {
  const { signal } = new AbortController();
  engine.begin();
  const out = new Float32Array(engine.info().gradientElements);
  const bounds = { clipLow: 0.9, clipHigh: 1e6, temperature: 0.7, normalizer: 5 };
  const stats = await engine.accumulate(samples, { ...bounds, out: gradientIn(out), signal });
  const adam = { lr: 1e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.01, clipNorm: 1 };
  const { gradNorm } = await engine.stage(gradientIn(out), adam);
  engine.promote();
  const { weights, optimizer } = engine.state();
  return { out, stats, gradNorm, weights: copyOf(weights), optimizer: copyOf(optimizer) };
}

describe("the trainer in PyTorch as two processes", () => {
  it("has the gradient, the figures and the update of one process, the same bits each time, and ends when one of the two does", async () => {
    const alone = await adapter.openPolicy!(options, { needs, config });
    open.push(alone);
    await alone.initialize({ kind: "folder", path: folder });
    const expected = await updateOf(alone);

    const { engine, second } = await openTwo();
    await engine.initialize({ kind: "folder", path: folder });
    const begun = { weights: copyOf(engine.state().weights), optimizer: copyOf(engine.state().optimizer) };
    const first = await updateOf(engine);
    expect(first.stats).toMatchObject({ tokens: expected.stats.tokens, clipped: expected.stats.clipped });
    for (const figure of ["klSum", "entropySum", "lossSum", "logprobGapSum", "logprobGapMax"] as const)
      expect(first.stats[figure], figure).toBeCloseTo(expected.stats[figure]!, 4);
    expect(first.gradNorm).toBeCloseTo(expected.gradNorm, 4);
    expect(farthest(first.out, expected.out)).toBeLessThan(1e-5);
    expect(first.optimizer).toHaveLength(expected.optimizer.length);

    const next = await updateOf(engine);
    await engine.restore(inlineState(begun));
    const again = await updateOf(engine);
    expect(Buffer.compare(again.weights, first.weights)).toBe(0);
    expect(Buffer.compare(again.optimizer, first.optimizer)).toBe(0);
    expect(Buffer.compare(next.weights, first.weights)).not.toBe(0);

    const lost = new Promise<Error>((resolve) => engine.onLost?.(resolve));
    await second.close();
    await expect(updateOf(engine)).rejects.toThrow(/RuntimeError|MUSTER|worker/);
    expect(String(await lost)).toMatch(/Connection closed by peer|exit code 1/);
  });
});

/** The largest difference of two gradients, against the largest element. */
function farthest(one: Float32Array, other: Float32Array): number {
  const most = other.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
  return one.reduce((max, value, i) => Math.max(max, Math.abs(value - (other[i] ?? 0))), 0) / most;
}
