/** Gradient of the clipped surrogate over a list of samples: fills batches, asks the core, turns log-probs into loss coefficients. */
import { surrogateOf } from "../algorithms/grpo.ts";
import type { AccumulateOptions, ShardStats, TrainSample } from "../engine.ts";
import { errors } from "../errors.ts";
import { type Address, breathe, type Core } from "./core.ts";

/** Sums while they grow. */
interface Totals {
  tokens: number;
  clipped: number;
  klSum: number;
  entropySum: number;
  lossSum: number;
}

/** Adds the gradient of `samples` to `gradient`, shortest first, `rows` at a time; yields between batches. */
export async function addGradient(
  core: Core,
  at: { readonly weights: Address; readonly gradient: Address },
  work: { readonly samples: readonly TrainSample[]; readonly rows: number; readonly options: AccumulateOptions },
): Promise<ShardStats> {
  work.samples.forEach((sample, index) => {
    checkSample(core, sample, index);
  });
  // Equal lengths side by side waste little padding; the sort is stable, so the order is fixed by the samples alone.
  const ordered = [...work.samples].sort((a, b) => a.tokens.length - b.tokens.length);
  const totals: Totals = { tokens: 0, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0 };
  for (let from = 0; from < ordered.length; from += work.rows) {
    work.options.signal.throwIfAborted();
    const batch = ordered.slice(from, from + work.rows);
    const length = fillTokens(
      core,
      batch.map((sample) => sample.tokens),
    );
    core.call.forward(at.weights, batch.length, length);
    fillCoefficients(core, { batch, length, options: work.options }, totals);
    core.call.backward(at.weights, at.gradient, batch.length, length);
    await breathe();
  }
  return totals;
}

/** Writes rows of tokens, padded with 0 to the longest, and clears the coefficients. @returns The padded length. */
export function fillTokens(core: Core, rows: readonly Int32Array[]): number {
  const length = rows.reduce((longest, row) => Math.max(longest, row.length), 0);
  const size = rows.length * length;
  const tokens = core.integers(core.call.tokens.value, size);
  tokens.fill(0);
  rows.forEach((row, i) => {
    tokens.set(row, i * length);
  });
  core.floats(core.call.coefficients.value, size).fill(0);
  core.floats(core.call.entropyCoefficients.value, size).fill(0);
  return length;
}

function fillCoefficients(
  core: Core,
  work: { readonly batch: readonly TrainSample[]; readonly length: number; readonly options: AccumulateOptions },
  totals: Totals,
): void {
  const { options, length } = work;
  const size = work.batch.length * length;
  const logprobs = core.floats(core.call.logprobs.value, size);
  const entropies = core.floats(core.call.entropies.value, size);
  const coefficients = core.floats(core.call.coefficients.value, size);
  work.batch.forEach((sample, row) => {
    for (let t = 0; t < sample.logprobs.length; t++) {
      if (sample.lossMask && sample.lossMask[t] !== 1) continue;
      // Position i predicts token i + 1.
      const i = row * length + sample.promptLength + t - 1;
      const change = logprobs[i]! - sample.logprobs[t]!;
      const ratio = core.call.exponential(change);
      const { value, slope, clipped } = surrogateOf(ratio, sample.advantage, options);
      coefficients[i] = -slope / options.normalizer;
      totals.tokens += 1;
      totals.clipped += clipped ? 1 : 0;
      totals.klSum += ratio - 1 - change;
      totals.entropySum += entropies[i]!;
      totals.lossSum -= value;
    }
  });
}

function checkSample(core: Core, sample: TrainSample, index: number): void {
  const require = (holds: boolean, field: string, value: number, rule: string): void => {
    if (!holds) throw errors.EngineSampleInvalid({ index, field, value, rule });
  };
  const { tokens, promptLength, logprobs, lossMask, advantage } = sample;
  const { maxContext, vocab } = core.model;
  require(tokens.length <= maxContext, "tokens.length", tokens.length, `at most the context of ${maxContext}`);
  require(promptLength >= 1 && promptLength < tokens.length, "promptLength", promptLength, "1 … tokens − 1");
  const response = tokens.length - promptLength;
  require(logprobs.length === response, "logprobs.length", logprobs.length, `the response length ${response}`);
  if (lossMask)
    require(lossMask.length === response, "lossMask.length", lossMask.length, `the response length ${response}`);
  require(Number.isFinite(advantage), "advantage", advantage, "finite");
  const wild = tokens.find((token) => token < 0 || token >= vocab);
  require(wild === undefined, "a token", wild ?? 0, `below the vocabulary of ${vocab}`);
}
