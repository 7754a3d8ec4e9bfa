/** Gradient of the clipped surrogate over a list of samples: fills batches, asks the core, turns log-probs into loss coefficients. */
import { trainingDefaults } from "@muster/protocol";
import { divergenceOf } from "../algorithms/kl.ts";
import { responseLoss } from "../algorithms/response-loss.ts";
import type { AccumulateOptions, LossOptions, ShardStats, TrainSample } from "../engine.ts";
import { errors } from "../errors.ts";
import { type Address, breathe, type Core } from "./core.ts";

/** Sums while they grow. */
interface Totals {
  tokens: number;
  clipped: number;
  klSum: number;
  entropySum: number;
  lossSum: number;
  logprobGapSum: number;
  logprobGapMax: number;
  /** Only where the loss has a divergence. */
  referenceKlSum?: number;
}

/** Where weights lie that a loss looks at. */
export interface LossWeights {
  /** Those that are trained. */
  readonly weights: Address;
  /** Those that the step began with. */
  readonly before: Address;
  /** Those of the reference policy; `null` when there is none. */
  readonly reference: Address | null;
}

/** Adds the gradient of `samples` to `gradient`, shortest first, `rows` at a time; yields between batches. */
export async function addGradient(
  core: Core,
  at: LossWeights & { readonly gradient: Address },
  work: { readonly samples: readonly TrainSample[]; readonly rows: number; readonly options: AccumulateOptions },
): Promise<ShardStats> {
  const { options } = work;
  const { loss = plainLoss } = options;
  const totals = noTotals(loss);
  for (const batch of batchesOf(core, work)) {
    options.signal.throwIfAborted();
    const length = fillTokens(
      core,
      batch.map((sample) => sample.tokens),
    );
    const under = (weights: Address | null, isAsked: boolean): readonly Float32Array[] | null => {
      if (weights === null || !isAsked) return null;
      core.call.forward(weights, batch.length, length);
      return responsesOf(core, batch, length).map((row) => row.slice());
    };
    const before = under(at.before, loss.staleCorrection !== "off");
    const reference = under(at.reference, loss.klCoefficient > 0);
    core.call.forward(at.weights, batch.length, length);
    fillCoefficients(core, { batch, length, options, before, reference }, totals);
    core.call.backward(at.weights, at.gradient, batch.length, length);
    await breathe();
  }
  return totals;
}

/** GRPO with nothing added. */
const plainLoss: LossOptions = trainingDefaults;

const noTotals = ({ klCoefficient }: LossOptions): Totals => ({
  ...{ tokens: 0, clipped: 0, klSum: 0, entropySum: 0, lossSum: 0, logprobGapSum: 0, logprobGapMax: 0 },
  ...(klCoefficient > 0 ? { referenceKlSum: 0 } : {}),
});

/** Log-probabilities of the response tokens of each sample under some weights; yields between batches. */
export async function logprobsUnder(
  core: Core,
  weights: Address,
  work: { readonly samples: readonly TrainSample[]; readonly rows: number; readonly signal: AbortSignal },
): Promise<readonly Float32Array[]> {
  const found = new Map<TrainSample, Float32Array>();
  for (const batch of batchesOf(core, work)) {
    work.signal.throwIfAborted();
    const length = fillTokens(
      core,
      batch.map((sample) => sample.tokens),
    );
    core.call.forward(weights, batch.length, length);
    const rows = responsesOf(core, batch, length);
    batch.forEach((sample, row) => {
      found.set(sample, rows[row]!.slice());
    });
    await breathe();
  }
  return work.samples.map((sample) => found.get(sample)!);
}

/** Checked samples, `rows` at a time. Equal lengths side by side waste little padding; the sort is stable, so the order is fixed by the samples alone. */
function* batchesOf(
  core: Core,
  { samples, rows }: { readonly samples: readonly TrainSample[]; readonly rows: number },
): Generator<readonly TrainSample[]> {
  samples.forEach((sample, index) => {
    checkSample(core, sample, index);
  });
  const ordered = [...samples].sort((a, b) => a.tokens.length - b.tokens.length);
  for (let from = 0; from < ordered.length; from += rows) yield ordered.slice(from, from + rows);
}

/** The log-probabilities of the response tokens of each row, as views: position i predicts token i + 1. */
function responsesOf(core: Core, batch: readonly TrainSample[], length: number): readonly Float32Array[] {
  const logprobs = core.floats(core.call.logprobs.value, batch.length * length);
  return batch.map((sample, row) => responsePart(logprobs, sample, row * length));
}

const responsePart = (values: Float32Array, sample: TrainSample, row: number): Float32Array =>
  values.subarray(row + sample.promptLength - 1, row + sample.tokens.length - 1);

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
  work: {
    readonly batch: readonly TrainSample[];
    readonly length: number;
    readonly options: AccumulateOptions;
    readonly before: readonly Float32Array[] | null;
    readonly reference: readonly Float32Array[] | null;
  },
  totals: Totals,
): void {
  const { options, length, batch, before, reference } = work;
  const size = batch.length * length;
  const allEntropies = core.floats(core.call.entropies.value, size);
  const allCoefficients = core.floats(core.call.coefficients.value, size);
  const allEntropyCoefficients = core.floats(core.call.entropyCoefficients.value, size);
  const exp = core.call.exponential;
  responsesOf(core, batch, length).forEach((logprobs, row) => {
    const sample = batch[row]!;
    const part = (values: Float32Array): Float32Array => responsePart(values, sample, row * length);
    const [entropies, coefficients] = [part(allEntropies), part(allCoefficients)];
    const entropyCoefficients = part(allEntropyCoefficients);
    const { advantage, advantages, lossMask: mask, weight = 1 } = sample;
    const response = {
      ...{ logprobs, sampled: sample.logprobs, before: before?.[row], reference: reference?.[row], entropies },
      ...{ advantage, advantages, mask, weight, normalizer: options.normalizer, clip: options, exp },
    };
    responseLoss(response, options.loss ?? plainLoss, (t, { value, byLogprob, byEntropy, clipped }) => {
      coefficients[t] = byLogprob;
      entropyCoefficients[t] = byEntropy;
      const change = logprobs[t]! - sample.logprobs[t]!;
      totals.tokens += 1;
      totals.clipped += clipped ? 1 : 0;
      totals.klSum += exp(change) - 1 - change;
      totals.entropySum += entropies[t]!;
      totals.lossSum += value;
      totals.logprobGapSum += Math.abs(change);
      totals.logprobGapMax = Math.max(totals.logprobGapMax, Math.abs(change));
      if (response.reference && totals.referenceKlSum !== undefined)
        totals.referenceKlSum += divergenceOf("k3", logprobs[t]! - response.reference[t]!, exp).value;
    });
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
  if (sample.advantages)
    require(sample.advantages.length === response, "advantages.length", sample.advantages
      .length, `the response length ${response}`);
  const wild = tokens.find((token) => token < 0 || token >= vocab);
  require(wild === undefined, "a token", wild ?? 0, `below the vocabulary of ${vocab}`);
}
