/** The embedded trainer with all that a loss may have: its gradient beside that of a double-precision model, and where it stops before it is wrong. */
import { type Training, trainingDefaults } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { createEmbeddedPolicyEngine } from "../src/embedded/index.ts";
import { inlineState, lossOf, type TrainSample } from "../src/index.ts";
import { gradientIn } from "../src/internal.ts";
import { reference } from "./reference/llama.ts";
import { quiet, tiny } from "./rollout-fixture.ts";

const temperature = 0.8;
const samples: readonly TrainSample[] = [
  [3, 1, 4, 1, 5, 0],
  [2, 7, 1, 6],
  [5, 3, 5, 2, 4],
].map((tokens, i) => ({
  tokens: Int32Array.from(tokens, (token) => token % tiny.vocab),
  promptLength: 2,
  logprobs: Float32Array.from(tokens.slice(2), (_, t) => -1 - 0.3 * t - 0.1 * i),
  ...{ advantage: 0.8 - 0.7 * i, weight: 1 / (tokens.length - 2) },
}));
const moved = (weights: Float32Array, by: number): Float32Array => weights.map((x, i) => x + by * Math.sin(i + by));

async function engineWith(hasReference: boolean) {
  const engine = createEmbeddedPolicyEngine({ model: tiny, hasReference, rows: 2 });
  await engine.initialize({ kind: "seed", seed: 3 });
  const first = new Float32Array(engine.state().weights.slice().buffer);
  return { engine, first };
}

/** Gradient of the engine after one update of its candidate, and the weights on the way. */
async function gradientOf(training: Partial<Training>) {
  const loss = lossOf({ ...trainingDefaults, ...training });
  const { engine, first } = await engineWith(true);
  await engine.openReference({ kind: "seed", seed: 3 });
  const begun = moved(first, 0.05);
  const optimizer = engine.state().optimizer.slice();
  await engine.restore(inlineState({ weights: new Uint8Array(begun.buffer), optimizer }));
  engine.begin();
  const out = new Float32Array(engine.info().gradientElements);
  const options = {
    normalizer: 3,
    clipLow: 0.5,
    clipHigh: 0.9,
    temperature,
    out: gradientIn(out),
    signal: quiet(),
    loss,
  };
  await engine.accumulate(samples, options);
  await engine.stage(gradientIn(out), {
    ...{ lr: 0.02, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, clipNorm: 0 },
  });
  const candidate = new Float32Array(engine.candidate().weights.slice().buffer);
  const stats = await engine.accumulate(samples, options);
  const logprobs = await engine.referenceLogprobs!(samples, { temperature, signal: quiet() });
  return { out, first, begun, candidate, logprobs, loss, stats };
}

describe("the embedded trainer", () => {
  it("has the gradient of a loss with everything in it, at three sets of weights", async () => {
    const { out, first, begun, candidate, logprobs, stats } = await gradientOf({
      ...{ algorithm: "gspo", klCoefficient: 0.3, klEstimator: "k3", entropyCoefficient: 0.1 },
      ...{ staleCorrection: "truncate", staleCap: 1.1 },
    });
    const tokens = samples.map((sample) => [...sample.tokens]);
    const none = { logprob: () => 0, entropy: () => 0 };
    const under = (weights: Float32Array) => reference(tiny, weights, tokens, none, temperature).logprobs;
    const [anchor, old, now] = [under(first), under(begun), under(candidate)];
    samples.forEach(({ promptLength, logprobs: drawn }, row) => {
      drawn.forEach((_, t) => {
        expect(logprobs[row]![t]).toBeCloseTo(anchor[row]![promptLength + t - 1]!, 5);
      });
    });
    const divergence = samples.reduce(
      (sum, { promptLength, logprobs: drawn }, row) =>
        [...drawn].reduce((all, _, t) => {
          const d = now[row]![promptLength + t - 1]! - anchor[row]![promptLength + t - 1]!;
          return all + Math.exp(-d) - 1 + d;
        }, sum),
      0,
    );
    expect(divergence).toBeGreaterThan(0.001);
    expect(stats.referenceKlSum).toBeCloseTo(divergence, 4);
    // Written out for sequences: s · A · w, where both ratios are geometric means.
    const coefficient = (row: number, at: number): number => {
      const { promptLength, logprobs: drawn, advantage, weight = 1 } = samples[row]!;
      if (at < promptLength - 1 || at >= promptLength - 1 + drawn.length) return 0;
      const mean = (of: (t: number, i: number) => number): number =>
        [...drawn].reduce((sum, _, t) => sum + of(t, promptLength + t - 1), 0) / drawn.length;
      const s = Math.exp(mean((_, i) => now[row]![i]! - old[row]![i]!));
      const isHeld = advantage > 0 ? s > 1.9 : s < 0.5;
      const stale = Math.min(1.1, Math.exp(mean((t, i) => old[row]![i]! - drawn[t]!)));
      const divergence = 1 - Math.exp(anchor[row]![at]! - now[row]![at]!);
      return ((isHeld ? 0 : -stale * s * advantage) + 0.3 * divergence) * (weight / 3);
    };
    const entropy = (row: number, at: number): number => {
      const { promptLength, logprobs: drawn, weight = 1 } = samples[row]!;
      return at < promptLength - 1 || at >= promptLength - 1 + drawn.length ? 0 : (-0.1 * weight) / 3;
    };
    const { gradient } = reference(tiny, candidate, tokens, { logprob: coefficient, entropy }, temperature);
    const norm = Math.sqrt(gradient.reduce((sum, x) => sum + x * x, 0));
    const off = Math.sqrt(gradient.reduce((sum, x, i) => sum + (x - out[i]!) ** 2, 0));
    expect(norm).toBeGreaterThan(0.01);
    expect(off / norm).toBeLessThan(2e-5);
  });

  it("computes what it computed before where a loss adds nothing", async () => {
    const { engine } = await engineWith(false);
    engine.begin();
    const [plain, named] = [0, 0].map(() => new Float32Array(engine.info().gradientElements));
    const options = { normalizer: 3, clipLow: 0.2, clipHigh: 0.2, temperature, signal: quiet() };
    await engine.accumulate(samples, { ...options, out: gradientIn(plain!) });
    await engine.accumulate(samples, { ...options, out: gradientIn(named!), loss: lossOf(trainingDefaults) });
    expect(Buffer.from(named!.buffer).equals(Buffer.from(plain!.buffer))).toBe(true);
  });

  it("refuses a divergence without a reference policy, and says what is missing", async () => {
    const loss = lossOf({ ...trainingDefaults, klCoefficient: 0.1 });
    for (const hasReference of [true, false]) {
      const { engine } = await engineWith(hasReference);
      engine.begin();
      const out = new Float32Array(engine.info().gradientElements);
      const options = {
        normalizer: 1,
        clipLow: 0.2,
        clipHigh: 0.2,
        temperature: 1,
        out: gradientIn(out),
        signal: quiet(),
        loss,
      };
      await expect(engine.accumulate(samples, options)).rejects.toThrow("accumulate needs a reference policy first");
    }
  });

  it("refuses advantages of tokens that are fewer than the tokens", async () => {
    const { engine } = await engineWith(false);
    engine.begin();
    const out = new Float32Array(engine.info().gradientElements);
    const bad = [{ ...samples[0]!, advantages: new Float32Array(1) }];
    await expect(
      engine.accumulate(bad, {
        normalizer: 1,
        clipLow: 0.2,
        clipHigh: 0.2,
        temperature: 1,
        out: gradientIn(out),
        signal: quiet(),
      }),
    ).rejects.toThrow(/advantages\.length is 1; it must be the response length 4/);
  });
});
