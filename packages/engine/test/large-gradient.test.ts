/**
 * A trainer whose gradient has more elements than an array of JavaScript may have. By hand: it takes 8 GiB of memory.
 * `MUSTER_TEST_LARGE=1 npx vitest run --project unit packages/engine/test/large-gradient.test.ts`
 */
import { fileURLToPath } from "node:url";
import { needsOfTask, taskOf } from "@muster/data";
import type { JobConfig } from "@muster/protocol";
import { expect, it } from "vitest";
import { EngineRegistry, gradientThrough } from "../src/index.ts";
import { workerAdapterOf } from "../src/worker/index.ts";

const program = fileURLToPath(new URL("./support/bad-worker.mjs", import.meta.url));
const sample = { tokens: Int32Array.of(1, 2, 3), promptLength: 1, logprobs: Float32Array.of(-1, -1), advantage: 1 };
const elements = 2 ** 30 + 8;

it("passes between a worker and the data plane in windows", async (context) => {
  context.skip(process.env.MUSTER_TEST_LARGE === undefined, "takes 8 GiB of memory; by hand with MUSTER_TEST_LARGE=1");
  const adapter = workerAdapterOf(process.env);
  const options = adapter.schema.parse({ command: `'${process.execPath}' '${program}' wide`, arena_mb: 1 });
  const policy = { adapter: "worker", options };
  const registry = new EngineRegistry([["worker", adapter]]);
  const engine = await registry.openPolicy(
    { engine: { policy } } as unknown as JobConfig,
    needsOfTask(taskOf("dates")),
  );
  try {
    expect(engine.info().gradientElements).toBe(elements);
    await engine.initialize({ kind: "seed", seed: 1 });
    engine.begin();
    const windowMax = 2 ** 26;
    const seen = new Float32Array(windowMax);
    // One array stands for all windows, each of which is read or written before the next one is asked for.
    const out = gradientThrough(elements, ({ elements: some }) => seen.subarray(0, some), windowMax);
    const bounds = { normalizer: 1, clipLow: 0.2, clipHigh: 0.2, temperature: 1 };
    await engine.accumulate([sample], { ...bounds, out, signal: new AbortController().signal });
    expect(seen[7]).toBe(7);
    seen.fill(0).set([9], 7);
    const adam = { lr: 1, beta1: 0.9, beta2: 0.9, epsilon: 1, weightDecay: 0, clipNorm: 1 };
    expect(await engine.stage(out, adam)).toEqual({ gradNorm: 9, finite: true });
  } finally {
    await engine.close();
  }
}, 600_000);
