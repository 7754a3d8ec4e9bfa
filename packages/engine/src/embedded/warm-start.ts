/** Supervised training from random weights: the model that reinforcement learning starts from. A pure function of task, seed and engine build. */
import { randomOf } from "@muster/base";
import type { BuiltInTask } from "@muster/data";
import { breathe, openCore } from "./core.ts";
import { fillTokens } from "./gradient.ts";
import type { ModelConfig } from "./model-config.ts";

/** What {@link warmStart} does. */
export interface WarmStartOptions {
  readonly task: BuiltInTask;
  readonly seed: number;
  /** Updates; the default of the task ships with the jobs. */
  readonly steps?: number;
  /** Called after each update with its number, from 1, and the mean loss per answer token in nats. */
  readonly onStep?: (step: number, loss: number) => void;
}

/** Result of a warm start. */
export interface WarmStart {
  readonly model: ModelConfig;
  /** Weights section. */
  readonly weights: Uint8Array;
}

const batchSize = 128;
const rowsPerPass = 32;
const warmupSteps = 50;
const peakRate = 2e-3;
const [beta1, beta2, epsilon, clipNorm] = [0.9, 0.95, 1e-8, 1];

/** Updates that leave something to learn: dates answers 4 of 8 formats, addition draws a right sum one time in four. */
const defaultSteps: Readonly<Record<string, number>> = { dates: 200, addition: 400 };

/** The model that the shipped jobs train: 2 layers, width 64, about 85,000 parameters. */
export function defaultModelOf(task: BuiltInTask): ModelConfig {
  return {
    vocab: task.vocab,
    hidden: 64,
    layers: 2,
    heads: 4,
    kvHeads: 4,
    ffn: 128,
    maxContext: task.maxTokens,
    tied: true,
  };
}

/** Trains the default model of a task on its supervised examples. */
export async function warmStart(options: WarmStartOptions): Promise<WarmStart> {
  const { task, seed } = options;
  const model = defaultModelOf(task);
  const steps = options.steps ?? defaultSteps[task.name] ?? 200;
  const core = openCore(model, { tokens: rowsPerPass * model.maxContext, slots: 0 });
  const { call, parameters } = core;
  const [weights, gradient, first, second] = [0, 1, 2, 3].map(() => call.reserve(parameters)) as [
    number,
    number,
    number,
    number,
  ];
  call.initialize(weights, seed);
  const random = randomOf(seed);
  for (let step = 1; step <= steps; step++) {
    const examples = Array.from({ length: batchSize }, () => task.supervised(random));
    core.floats(gradient, parameters).fill(0);
    const loss = await addSupervisedGradient(core, { weights, gradient }, examples);
    const norm = call.norm(gradient, parameters);
    const rate = peakRate * Math.min(1, step / warmupSteps) * (1 - (0.9 * step) / steps);
    const scale = norm > clipNorm ? clipNorm / norm : 1;
    call.adamw(weights, first, second, gradient, parameters, step, scale, rate, beta1, beta2, epsilon, 0);
    options.onStep?.(step, loss);
  }
  return { model, weights: core.bytes(weights, 4 * parameters).slice() };
}

/** Adds the gradient of the mean negative log-probability of the answer tokens. @returns That mean. */
async function addSupervisedGradient(
  core: ReturnType<typeof openCore>,
  at: { readonly weights: number; readonly gradient: number },
  examples: readonly ReturnType<BuiltInTask["supervised"]>[],
): Promise<number> {
  const total = examples.reduce((sum, example) => sum + example.answerIds.length, 0);
  let loss = 0;
  for (let from = 0; from < examples.length; from += rowsPerPass) {
    const batch = examples.slice(from, from + rowsPerPass);
    const length = fillTokens(
      core,
      batch.map(({ promptIds, answerIds }) => Int32Array.of(...promptIds, ...answerIds)),
    );
    const coefficients = core.floats(core.call.coefficients.value, batch.length * length);
    batch.forEach(({ promptIds, answerIds }, row) => {
      const start = row * length + promptIds.length - 1;
      coefficients.fill(-1 / total, start, start + answerIds.length);
    });
    core.call.forward(at.weights, batch.length, length);
    const logprobs = core.floats(core.call.logprobs.value, batch.length * length);
    loss += coefficients.reduce((sum, coefficient, i) => sum + coefficient * logprobs[i]!, 0);
    core.call.backward(at.weights, at.gradient, batch.length, length);
    await breathe();
  }
  return loss;
}
