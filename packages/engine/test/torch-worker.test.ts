/** The trainer in PyTorch beside the embedded one: the same gradient for the same weights. About 25 s: each process imports PyTorch. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { needsOfTask, taskOf } from "@muster/data";
import { type JobConfig, type Training, trainingDefaults } from "@muster/protocol";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { embeddedAdapter } from "../src/embedded/index.ts";
import type { EngineAdapter, TrainSample } from "../src/index.ts";
import { EngineRegistry, inlineState, lossOf } from "../src/index.ts";
import { copyOf, gradientIn } from "../src/internal.ts";
import { workerAdapterOf } from "../src/worker/index.ts";
import { noTorch, torchPython } from "./torch-fixture.ts";
import { pathOf } from "./worker-fixture.ts";

vi.setConfig({ testTimeout: 120_000 });

const folder = pathOf("jobs/warm-start/dates");
const adapter = workerAdapterOf({ ...process.env, PYTHONPATH: pathOf("python"), PYTHONDONTWRITEBYTECODE: "1" });
const needs = needsOfTask(taskOf("dates"));
beforeEach((context) => context.skip(torchPython === undefined, noTorch));

const commandOf = (...more: readonly string[]): string =>
  [torchPython, "-m", "muster_worker.torch_grpo", "--model", `'${folder}'`, ...more].join(" ");

async function opened(
  name: string,
  engine: EngineAdapter,
  given: Readonly<Record<string, unknown>>,
  training: Training = trainingDefaults,
) {
  const choice = { adapter: name, options: engine.schema.parse(given) };
  const weights = { kind: "folder", path: folder };
  const config = { engine: { policy: choice, rollout: choice }, training, weights } as unknown as JobConfig;
  return await new EngineRegistry([[name, engine]]).openPolicy(config, needs);
}

const samples: readonly TrainSample[] = [
  {
    tokens: Int32Array.of(5, 9, 12, 3, 7, 0),
    promptLength: 3,
    logprobs: Float32Array.of(-2, -3, -1.5),
    advantage: 1.2,
  },
  {
    tokens: Int32Array.of(8, 1, 30, 2),
    promptLength: 2,
    logprobs: Float32Array.of(-3, -4),
    advantage: -0.7,
    lossMask: Uint8Array.of(0, 1),
  },
];

describe("the trainer in PyTorch", () => {
  it("has the gradient, the figures and the update of the embedded one for the weights of one folder", async () => {
    const engines = [
      await opened("embedded", embeddedAdapter, {}),
      await opened("worker", adapter, { command: commandOf() }),
    ];
    const outcomes = [];
    for (const engine of engines) {
      await engine.initialize({ kind: "folder", path: folder });
      engine.begin();
      const out = new Float32Array(engine.info().gradientElements);
      const { signal } = new AbortController();
      const bounds = { clipLow: 0.9, clipHigh: 1e6, temperature: 0.7, normalizer: 5 };
      const stats = await engine.accumulate(samples, { ...bounds, out: gradientIn(out), signal });
      const adam = { lr: 1e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.01, clipNorm: 1 };
      const { gradNorm } = await engine.stage(gradientIn(out), adam);
      const before = Float32Array.from(new Float32Array(copyOf(engine.state().weights).buffer));
      const after = new Float32Array(copyOf(engine.candidate().weights).buffer);
      outcomes.push({ stats, gradNorm, out, moved: after.map((value, i) => value - before[i]!) });
      await engine.close();
    }
    const [ours, theirs] = [outcomes[0]!, outcomes[1]!];
    expect(theirs.stats).toMatchObject({ tokens: 4, clipped: ours.stats.clipped });
    for (const figure of ["klSum", "entropySum", "lossSum", "logprobGapSum", "logprobGapMax"] as const)
      expect(Math.abs(theirs.stats[figure]! / ours.stats[figure]! - 1), figure).toBeLessThan(1e-4);
    expect(Math.abs(theirs.gradNorm / ours.gradNorm - 1)).toBeLessThan(1e-4);
    expect(distance(theirs.out, ours.out)).toBeLessThan(1e-4);
    expect(distance(theirs.moved, ours.moved)).toBeLessThan(0.02); // the sign of a gradient near zero decides on a whole step of Adam
  });

  it("learns from the others where a sampler says of a token that it can not be drawn, and else says that the update is not finite", async () => {
    const engine = await opened("worker", adapter, { command: commandOf() });
    const { signal } = new AbortController();
    const out = new Float32Array(engine.info().gradientElements);
    const bounds = { clipLow: 0.2, clipHigh: 0.3, temperature: 1, normalizer: 5 };
    const adam = { lr: 1e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.01, clipNorm: 1 };
    await engine.initialize({ kind: "folder", path: folder });
    for (const advantage of [1, 0, -1]) {
      engine.begin();
      const odd = { ...samples[0]!, logprobs: Float32Array.of(-2, -9999, -1.5), advantage };
      const stats = await engine.accumulate([odd, samples[1]!], { ...bounds, out: gradientIn(out), signal });
      for (const figure of Object.values(stats)) expect(figure).toSatisfy(Number.isFinite);
      expect((await engine.stage(gradientIn(out), adam)).finite, `${advantage}`).toBe(advantage >= 0);
      engine.discard();
    }
    await engine.close();
  });

  it("says of weights that are no numbers that the update is not finite, with figures that can be said", async () => {
    const engine = await opened("worker", adapter, { command: commandOf() });
    const { signal } = new AbortController();
    await engine.initialize({ kind: "folder", path: folder });
    const { weights, optimizer } = engine.state();
    const broken = new Float32Array(copyOf(weights).buffer).fill(Number.NaN);
    await engine.restore(inlineState({ weights: new Uint8Array(broken.buffer), optimizer: copyOf(optimizer) }));
    engine.begin();
    const out = new Float32Array(engine.info().gradientElements);
    const bounds = { clipLow: 0.2, clipHigh: 0.3, temperature: 1, normalizer: 5 };
    const stats = await engine.accumulate(samples, { ...bounds, out: gradientIn(out), signal });
    for (const figure of Object.values(stats)) expect(figure).toSatisfy(Number.isFinite);
    const adam = { lr: 1e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.01, clipNorm: 1 };
    expect((await engine.stage(gradientIn(out), adam)).finite).toBe(false);
    await engine.close();
  });

  it("has the gradient of the embedded one at a second update, for a loss with everything in it that its job names", async () => {
    const training: Training = {
      ...{ ...trainingDefaults, algorithm: "gspo", klCoefficient: 0.3, klEstimator: "k3", entropyCoefficient: 0.1 },
      ...{ staleCorrection: "truncate", staleCap: 1.1 },
    };
    const weighed = samples.map((sample, i) => ({ ...sample, weight: 1 / (i + 1) }));
    const engines = [
      await opened("embedded", embeddedAdapter, {}, training),
      await opened("worker", adapter, { command: commandOf() }, training),
    ];
    const outcomes = [];
    for (const engine of engines) {
      await engine.initialize({ kind: "folder", path: folder });
      const { weights, optimizer } = engine.state();
      const begun = new Float32Array(copyOf(weights).buffer).map((x, i) => x + 0.03 * Math.sin(i));
      await engine.restore(inlineState({ weights: new Uint8Array(begun.buffer), optimizer: copyOf(optimizer) }));
      engine.begin();
      const out = new Float32Array(engine.info().gradientElements);
      const { signal } = new AbortController();
      const bounds = { clipLow: 0.5, clipHigh: 0.9, temperature: 0.7, normalizer: 5, loss: lossOf(training) };
      await engine.accumulate(weighed, { ...bounds, out: gradientIn(out), signal });
      const update = { lr: 2e-3, beta1: 0.9, beta2: 0.99, epsilon: 1e-3, weightDecay: 0, clipNorm: 0 };
      await engine.stage(gradientIn(out), update);
      const stats = await engine.accumulate(weighed, { ...bounds, out: gradientIn(out), signal });
      const logprobs = await engine.referenceLogprobs!(weighed, { temperature: 0.7, signal });
      outcomes.push({ stats, out, logprobs });
      await engine.close();
    }
    const [ours, theirs] = [outcomes[0]!, outcomes[1]!];
    expect(theirs.stats).toMatchObject({ tokens: 4, clipped: ours.stats.clipped });
    for (const figure of [
      "klSum",
      "entropySum",
      "lossSum",
      "logprobGapSum",
      "logprobGapMax",
      "referenceKlSum",
    ] as const)
      expect(Math.abs(theirs.stats[figure]! / ours.stats[figure]! - 1), figure).toBeLessThan(2e-3);
    expect(distance(theirs.out, ours.out)).toBeLessThan(2e-3);
    theirs.logprobs.forEach((row, i) => {
      expect(distance(row, ours.logprobs[i]!)).toBeLessThan(1e-5);
    });
  });

  it("has another fingerprint with other kernels or other rows of a pass, and the same one again with the same", async () => {
    const fingerprintOf = async (environment: string, ...more: string[]): Promise<string | undefined> => {
      const engine = await opened("worker", adapter, { command: commandOf(...more), environment });
      await engine.close();
      return engine.info().fingerprint;
    };
    const [fast, again] = [await fingerprintOf(""), await fingerprintOf("")];
    const plain = await fingerprintOf("ATEN_CPU_CAPABILITY=default");
    expect(fast).toMatch(/^[0-9a-f]{16}$/);
    expect(again).toBe(fast);
    expect(plain).not.toBe(fast);
    // Rows of a pass decide where sums meet: only the votes would tell, step by step.
    expect(await fingerprintOf("", "--rows", "1")).not.toBe(fast);
  });

  it("says why a reference policy can not be opened", async () => {
    const training = { ...trainingDefaults, klCoefficient: 0.1, reference: "/nowhere" };
    await expect(opened("worker", adapter, { command: commandOf() }, training)).rejects.toThrow(
      /openReference.*\/nowhere is no model in Hugging Face layout/,
    );
  });

  it("trains adapters alone with --lora-rank: by the gradient that autograd gives them, kept in the state, beside weights that no update moves", () => {
    const done = spawnSync(String(torchPython), [fileURLToPath(new URL("adapters.py", import.meta.url)), folder], {
      env: { ...process.env, PYTHONPATH: pathOf("python"), PYTHONDONTWRITEBYTECODE: "1" },
      encoding: "utf8",
    });
    expect(done.stderr).toBe("");
    const { apart, moved, elements, restored, refused } = JSON.parse(done.stdout);
    expect(elements).toBe(2 * 2 * 2 * (64 + 64));
    expect(apart).toBeLessThan(1e-5);
    expect(moved).toEqual(["k_proj", "v_proj"]);
    expect(restored).toBe(true);
    expect(refused).toMatch(/^the weights are not those of --model with these adapters/);
  });

  it.each([
    ["--model /nowhere", /is no model in Hugging Face layout/],
    ["--lora-rank 4 --lora-targets z_proj", /--lora-targets names 'z_proj', and the model has no such matrix/],
    [
      "--lora-rank 1000",
      /--lora-rank 1000 is more than model\.layers\.0\.self_attn\.q_proj\.weight \[\d+, \d+\] has; use at most \d+/,
    ],
  ])("says why it can not begin: %s", (words, expected) => {
    const options = adapter.schema.parse({ command: commandOf(words) }) as Record<string, string>;
    expect(() => adapter.describe(options, needs)).toThrow(expected);
  });

  it("refuses a Llama with scaled positions, under the older name and the newer", () => {
    for (const field of ["rope_scaling", "rope_parameters"]) {
      const model = mkdtempSync(join(tmpdir(), "muster-scaled-"));
      const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));
      const scaled = { rope_type: "llama3", factor: 8, rope_theta: 500_000 };
      writeFileSync(join(model, "config.json"), JSON.stringify({ ...config, [field]: scaled }));
      const command = commandOf().replace(folder, model);
      const options = adapter.schema.parse({ command }) as Record<string, string>;
      expect(() => adapter.describe(options, needs)).toThrow(
        `config.json: ${field} is {'rope_type': 'llama3', 'factor': 8, 'rope_theta': 500000}; it must be of rope_type default`,
      );
      rmSync(model, { recursive: true });
    }
  });

  it("refuses a task with more tokens or longer sequences than its model has", () => {
    const options = adapter.schema.parse({ command: commandOf() }) as Record<string, string>;
    expect(() => adapter.describe(options, { ...needs, vocab: 500 })).toThrow(
      /refuses this job: the model has vocab 43, and the task needs 500/,
    );
  });
});

/** Norm of the difference, relative to the norm. */
function distance(one: Float32Array, other: Float32Array): number {
  const norm = (values: Float32Array): number => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return norm(one.map((value, i) => value - other[i]!)) / norm(other);
}
