import { describe, expect, it } from "vitest";
import { createEmbeddedPolicyEngine, type EmbeddedTrainer } from "../src/embedded/index.ts";
import { inlineState, type OptimizerOptions, type PolicyEngine, type TrainSample } from "../src/index.ts";
import { gradientIn } from "../src/internal.ts";
import { openRollout, quiet, requestsOf, tiny, weightsOf } from "./rollout-fixture.ts";

const optimizer: OptimizerOptions = { lr: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.1, clipNorm: 1 };

async function openPolicy(seed = 3): Promise<EmbeddedTrainer> {
  const policy = createEmbeddedPolicyEngine({ model: tiny });
  await policy.initialize({ kind: "seed", seed });
  return policy;
}

/** Responses of the policy's own weights, with alternating advantages. */
async function samples(count = 12, temperature = 1): Promise<TrainSample[]> {
  const sampling = { temperature, maxNewTokens: 12, stopTokenIds: [0] };
  const requests = requestsOf(count, { sampling });
  const rows = await (await openRollout()).generate(requests, quiet());
  return rows.flatMap((row, i) =>
    row.map(({ responseIds, logprobs }, k) => ({
      tokens: Int32Array.of(...requests[i]!.promptIds, ...responseIds),
      promptLength: requests[i]!.promptIds.length,
      logprobs,
      advantage: ((i + k) % 3) - 0.9,
    })),
  );
}

async function gradientOf(policy: PolicyEngine, batch: readonly TrainSample[], normalizer = 100, temperature = 1) {
  const out = new Float32Array(policy.info().gradientElements);
  const stats = await policy.accumulate(batch, {
    normalizer,
    clipLow: 0.2,
    clipHigh: 0.28,
    temperature,
    out: gradientIn(out),
    signal: quiet(),
  });
  return { out, stats };
}

const floats = (bytes: Uint8Array): Float32Array => new Float32Array(bytes.slice().buffer);

describe("a step", () => {
  it("changes the candidate only, until it is promoted", async () => {
    const policy = await openPolicy();
    const before = policy.state().weights.slice();
    policy.begin();
    const { out } = await gradientOf(policy, await samples());
    const { finite, gradNorm } = await policy.stage(gradientIn(out), optimizer);
    expect(finite && gradNorm > 0).toBe(true);
    expect(policy.state().weights.slice()).toEqual(before);
    const candidate = policy.candidate().weights.slice();
    expect(candidate).not.toEqual(before);
    policy.promote();
    expect(policy.state().weights.slice()).toEqual(candidate);
  });

  it("leaves no trace when it is discarded and tried again", async () => {
    const batch = await samples();
    const run = async (policy: EmbeddedTrainer): Promise<Uint8Array> => {
      policy.begin();
      const { out } = await gradientOf(policy, batch);
      await policy.stage(gradientIn(out), optimizer);
      return policy.candidate().optimizer.slice();
    };
    const policy = await openPolicy();
    const first = await run(policy);
    policy.discard();
    expect(await run(policy)).toEqual(first);
    expect(await run(await openPolicy())).toEqual(first);
  });

  it("goes on from restored state as if it had never stopped", async () => {
    const batch = await samples();
    const step = async (policy: PolicyEngine): Promise<void> => {
      policy.begin();
      const { out } = await gradientOf(policy, batch);
      await policy.stage(gradientIn(out), optimizer);
      policy.promote();
    };
    const straight = await openPolicy();
    await step(straight);
    const saved = { weights: straight.state().weights.slice(), optimizer: straight.state().optimizer.slice() };
    await step(straight);
    const resumed = createEmbeddedPolicyEngine({ model: tiny });
    await resumed.restore(inlineState(saved));
    await step(resumed);
    expect(resumed.state().weights.slice()).toEqual(straight.state().weights.slice());
    expect(resumed.state().optimizer.slice()).toEqual(straight.state().optimizer.slice());
  });

  it("is refused while another part of it runs, and before it has begun", async () => {
    const policy = await openPolicy();
    expect(() => policy.promote()).toThrow("promote needs begin() first");
    policy.begin();
    const running = gradientOf(policy, await samples());
    expect(() => policy.promote()).toThrow("accumulate is running");
    await running;
  });

  it("goes on from what it had when state that arrives breaks off, and does nothing else meanwhile", async () => {
    const policy = await openPolicy();
    const before = { weights: policy.state().weights.slice(), optimizer: policy.state().optimizer.slice() };
    const { weights, optimizer } = inlineState(policy.state());
    let breakOff: (reason: Error) => void = () => {};
    const arriving = new Promise<void>((_, reject) => (breakOff = reject));
    const restoring = policy.restore({
      weights: { ...weights, copyTo: async (into) => void into.fill(9) },
      optimizer: {
        ...optimizer,
        copyTo: (into) => {
          into.fill(9);
          return arriving;
        },
      },
    });
    expect(() => policy.begin()).toThrow("restore is running");
    breakOff(new Error("the holder went away"));
    await expect(restoring).rejects.toThrow("the holder went away");
    expect(policy.state().weights.slice()).toEqual(before.weights);
    expect(policy.state().optimizer.slice()).toEqual(before.optimizer);
    policy.begin();
  });

  it("refuses state of another model", async () => {
    const policy = await openPolicy();
    const state = policy.state();
    const four = new Uint8Array(4);
    await expect(policy.restore(inlineState({ ...state, weights: four }))).rejects.toThrow("weights has 4 bytes");
    await expect(policy.restore(inlineState({ ...state, optimizer: four }))).rejects.toThrow("optimizer has 4 bytes");
  });
});

describe("the gradient of a micro-shard", () => {
  it.each([1, 0.7, 1.3])(
    "is that of the on-policy surrogate at temperature %d: ratio 1, nothing clipped, no divergence",
    async (temperature) => {
      const policy = await openPolicy();
      policy.begin();
      const batch = await samples(12, temperature);
      const { stats } = await gradientOf(policy, batch, 100, temperature);
      const tokens = batch.reduce((sum, sample) => sum + sample.logprobs.length, 0);
      const surrogate = batch.reduce((sum, sample) => sum + sample.advantage * sample.logprobs.length, 0);
      expect(stats).toMatchObject({ tokens, clipped: 0, klSum: 0 });
      expect(stats.lossSum).toBeCloseTo(-surrogate, 9);
      expect(stats.entropySum / tokens).toBeGreaterThan(1);
    },
  );

  it("overwrites what was there, has the same bits each time, and is zero for an empty shard", async () => {
    const policy = await openPolicy();
    policy.begin();
    const batch = await samples();
    const first = await gradientOf(policy, batch);
    expect((await gradientOf(policy, batch)).out).toEqual(first.out);
    expect((await gradientOf(policy, [])).out.every((value) => value === 0)).toBe(true);
  });

  it("of two shards sums to that of the whole", async () => {
    const policy = await openPolicy();
    policy.begin();
    const batch = await samples();
    const whole = (await gradientOf(policy, batch)).out;
    const even = (
      await gradientOf(
        policy,
        batch.filter((_, i) => i % 2 === 0),
      )
    ).out;
    const odd = (
      await gradientOf(
        policy,
        batch.filter((_, i) => i % 2 === 1),
      )
    ).out;
    const largest = whole.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    whole.forEach((value, i) => {
      expect(Math.abs(even[i]! + odd[i]! - value)).toBeLessThan(1e-5 * largest);
    });
  });

  it("follows the finite difference of the clipped loss when the weights have moved", async () => {
    const policy = await openPolicy();
    const batch = await samples();
    const other = createEmbeddedPolicyEngine({ model: tiny });
    await other.initialize({ kind: "seed", seed: 3 });
    const start = floats(policy.state().weights);
    const direction = Float32Array.from(start, (_, i) => Math.sin(i));
    const at = async (shift: number) => {
      const moved = Float32Array.from(start, (value, i) => value + shift * direction[i]!);
      const weights = new Uint8Array(moved.buffer);
      await policy.restore(inlineState({ weights, optimizer: policy.state().optimizer.slice() }));
      policy.begin();
      return gradientOf(policy, batch, 1);
    };
    const { out, stats } = await at(0.03);
    expect(stats.clipped).toBeGreaterThan(0);
    expect(stats.clipped).toBeLessThan(stats.tokens);
    expect(stats.klSum).toBeGreaterThan(0);
    const measured = ((await at(0.0302)).stats.lossSum - (await at(0.0298)).stats.lossSum) / 0.0004;
    const claimed = out.reduce((sum, value, i) => sum + value * direction[i]!, 0);
    expect(Math.abs(measured / claimed - 1)).toBeLessThan(0.05);
  });

  it("leaves masked tokens out", async () => {
    const policy = await openPolicy();
    policy.begin();
    const [sample] = (await samples()).filter((one) => one.logprobs.length > 3) as [TrainSample];
    const none = await gradientOf(policy, [{ ...sample, lossMask: new Uint8Array(sample.logprobs.length) }]);
    expect(none.stats.tokens).toBe(0);
    expect(none.out.every((value) => value === 0)).toBe(true);
    const some = await gradientOf(policy, [{ ...sample, lossMask: new Uint8Array(sample.logprobs.length).fill(1, 2) }]);
    expect(some.stats.tokens).toBe(sample.logprobs.length - 2);
  });

  it("is refused for samples that do not fit, naming field and value", async () => {
    const policy = await openPolicy();
    policy.begin();
    const [sample] = (await samples()) as [TrainSample];
    const refused = (change: Partial<TrainSample>) => gradientOf(policy, [{ ...sample, ...change }]);
    await expect(refused({ promptLength: 0 })).rejects.toThrow("promptLength is 0");
    await expect(refused({ logprobs: new Float32Array(99) })).rejects.toThrow("logprobs.length is 99");
    await expect(refused({ advantage: Number.NaN })).rejects.toThrow("advantage is NaN");
    await expect(refused({ tokens: new Int32Array(40) })).rejects.toThrow("tokens.length is 40");
    const wild = sample.tokens.with(0, 11);
    await expect(refused({ tokens: wild })).rejects.toThrow("a token is 11");
  });

  it("stops with the signal's reason", async () => {
    const policy = await openPolicy();
    policy.begin();
    const out = new Float32Array(policy.info().gradientElements);
    const options = {
      normalizer: 1,
      clipLow: 0.2,
      clipHigh: 0.2,
      temperature: 1,
      out: gradientIn(out),
      signal: AbortSignal.abort(new Error("enough")),
    };
    await expect(policy.accumulate(await samples(), options)).rejects.toThrow("enough");
    policy.discard();
  });
});

describe("AdamW", () => {
  it("agrees with a double-precision reference over several updates", async () => {
    const policy = await openPolicy();
    const count = policy.info().gradientElements;
    const w = Array.from(floats(policy.state().weights));
    const m = new Array<number>(count).fill(0);
    const v = new Array<number>(count).fill(0);
    for (let t = 1; t <= 5; t++) {
      const gradient = Float32Array.from({ length: count }, (_, i) => Math.sin(i * t) * 0.1);
      policy.begin();
      const { gradNorm } = await policy.stage(gradientIn(gradient), optimizer);
      policy.promote();
      const norm = Math.hypot(...gradient);
      expect(gradNorm).toBeCloseTo(norm, 6);
      for (let i = 0; i < count; i++) {
        const g = gradient[i]! * Math.min(1, optimizer.clipNorm / norm);
        m[i] = 0.9 * m[i]! + 0.1 * g;
        v[i] = 0.99 * v[i]! + 0.01 * g * g;
        const change = m[i]! / (1 - 0.9 ** t) / (Math.sqrt(v[i]! / (1 - 0.99 ** t)) + 1e-8) + 0.1 * w[i]!;
        w[i] = w[i]! - 0.01 * change;
      }
    }
    floats(policy.state().weights).forEach((value, i) => {
      expect(value).toBeCloseTo(w[i]!, 4);
    });
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY])(
    "refuses a gradient with %s and leaves the candidate as it was",
    async (bad) => {
      const policy = await openPolicy();
      policy.begin();
      const gradient = new Float32Array(policy.info().gradientElements).fill(0.1);
      gradient[7] = bad;
      expect((await policy.stage(gradientIn(gradient), optimizer)).finite).toBe(false);
      expect(policy.candidate().weights.slice()).toEqual(policy.state().weights.slice());
      expect(policy.candidate().optimizer.every((byte) => byte === 0)).toBe(true);
    },
  );

  it("refuses options that make no sense", async () => {
    const policy = await openPolicy();
    policy.begin();
    const gradient = new Float32Array(policy.info().gradientElements);
    await expect(policy.stage(gradientIn(gradient), { ...optimizer, lr: Number.NaN })).rejects.toThrow("lr is NaN");
    await expect(policy.stage(gradientIn(gradient), { ...optimizer, beta2: 1 })).rejects.toThrow("beta2 is 1");
    await expect(policy.stage(gradientIn(new Float32Array(3)), optimizer)).rejects.toThrow("gradient length is 3");
  });
});

describe("initial weights", () => {
  it("are a pure function of the seed", async () => {
    expect(await weightsOf(tiny, 3)).toEqual(await weightsOf(tiny, 3));
    expect(await weightsOf(tiny, 3)).not.toEqual(await weightsOf(tiny, 4));
  });

  it("are normal numbers of the documented spread, with norms of one", async () => {
    const policy = await openPolicy();
    const weights = floats(policy.state().weights);
    const tensor = (name: string): Float32Array => {
      const spec = policy.info().tensors.find((entry) => entry.name === name)!;
      return weights.slice(spec.offsetBytes / 4, (spec.offsetBytes + spec.sizeBytes) / 4);
    };
    const deviation = (values: Float32Array): number =>
      Math.sqrt(values.reduce((sum, x) => sum + x * x, 0) / values.length);
    expect(deviation(tensor("model.embed_tokens.weight")) / 0.02).toBeCloseTo(1, 0);
    expect(deviation(tensor("model.layers.0.self_attn.q_proj.weight")) / (0.6 / 4)).toBeCloseTo(1, 0);
    expect([...tensor("model.norm.weight")]).toEqual(Array(16).fill(1));
    expect(policy.info().tensors.reduce((sum, spec) => sum + spec.sizeBytes, 0)).toBe(policy.info().weightsBytes);
  });
});

describe("a model shape", () => {
  it.each([
    [{ hidden: 18 }, "hidden is 18"],
    [{ heads: 3 }, "hidden is 16"],
    [{ kvHeads: 3 }, "kvHeads is 3"],
    [{ ffn: 10 }, "ffn is 10"],
    [{ vocab: 0 }, "vocab is 0"],
    [{ maxContext: 1 }, "maxContext is 1"],
  ])("is refused when %o", (change, message) => {
    expect(() => createEmbeddedPolicyEngine({ model: { ...tiny, ...change } })).toThrow(message);
  });
});
