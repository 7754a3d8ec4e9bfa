/** Samples as columns: one array for each of their fields, which a worker reads without taking frames apart. */
import type { EngineInfo, TrainSample } from "../engine.ts";
import { errors } from "../errors.ts";
import { joined } from "./joined.ts";

/**
 * Columns of samples: `lengths`, `promptLengths`, `advantages`, one each; `tokens` of all, one behind the other; `logprobs` and `mask` of all response
 * tokens. Where a sample has them: `weights`, one each, and `tokenAdvantages` of all response tokens. Pure.
 *
 * @throws MUSTER_ERR_ENGINE_SAMPLE_INVALID
 */
export function columnsOf(
  samples: readonly TrainSample[],
  { vocab, maxContext }: EngineInfo,
): Readonly<Record<string, Int32Array | Float32Array | Float64Array | Uint8Array>> {
  samples.forEach((sample, index) => {
    checkSample(sample, index, { vocab, maxContext });
  });
  const masks = samples.map(({ lossMask, logprobs }) => lossMask ?? new Uint8Array(logprobs.length).fill(1));
  return {
    advantages: Float64Array.from(samples, ({ advantage }) => advantage),
    lengths: Int32Array.from(samples, ({ tokens }) => tokens.length),
    promptLengths: Int32Array.from(samples, ({ promptLength }) => promptLength),
    tokens: joined(
      samples.map(({ tokens }) => tokens),
      Int32Array,
    ),
    logprobs: joined(
      samples.map(({ logprobs }) => logprobs),
      Float32Array,
    ),
    mask: joined(masks, Uint8Array),
    ...(samples.some(({ weight = 1 }) => weight !== 1)
      ? { weights: Float64Array.from(samples, ({ weight = 1 }) => weight) }
      : {}),
    ...(samples.some(({ advantages }) => advantages) ? { tokenAdvantages: tokenAdvantagesOf(samples) } : {}),
  };
}

function tokenAdvantagesOf(samples: readonly TrainSample[]): Float64Array {
  const rows = samples.map(({ advantages, advantage, logprobs }) =>
    Float64Array.from(logprobs, (_, t) => advantages?.[t] ?? advantage),
  );
  return joined(rows, Float64Array);
}

function checkSample(
  sample: TrainSample,
  index: number,
  { vocab, maxContext }: Pick<EngineInfo, "vocab" | "maxContext">,
): void {
  const require = (holds: boolean, field: string, value: number, rule: string): void => {
    if (!holds) throw errors.EngineSampleInvalid({ index, field, value, rule });
  };
  const { tokens, promptLength, logprobs, lossMask, advantage, advantages, weight = 1 } = sample;
  require(tokens.length <= maxContext, "tokens.length", tokens.length, `at most the context of ${maxContext}`);
  require(promptLength >= 1 && promptLength < tokens.length, "promptLength", promptLength, "1 … tokens − 1");
  const response = tokens.length - promptLength;
  require(logprobs.length === response, "logprobs.length", logprobs.length, `the response length ${response}`);
  require((lossMask?.length ?? response) === response, "lossMask.length", lossMask?.length ?? 0, String(response));
  require(Number.isFinite(advantage), "advantage", advantage, "finite");
  require(Number.isFinite(weight), "weight", weight, "finite");
  require((advantages?.length ?? response) === response, "advantages.length", advantages?.length ?? 0, String(
    response,
  ));
  const wild = tokens.find((token) => token < 0 || token >= vocab);
  require(wild === undefined, "a token", wild ?? 0, `below the vocabulary of ${vocab}`);
}
