/** Samples as columns: one array for each of their fields, which a worker reads without taking frames apart. */
import type { EngineInfo, TrainSample } from "../engine.ts";
import { errors } from "../errors.ts";

/**
 * Columns of samples: `lengths`, `promptLengths`, `advantages`, one each; `tokens` of all, one behind the other; `logprobs` and `mask` of all response
 * tokens. Pure.
 *
 * @throws MUSTER_ERR_ENGINE_SAMPLE_INVALID
 */
export function columnsOf(samples: readonly TrainSample[], { vocab, maxContext }: EngineInfo) {
  samples.forEach((sample, index) => {
    checkSample(sample, index, { vocab, maxContext });
  });
  const total = samples.reduce((sum, { tokens }) => sum + tokens.length, 0);
  const responses = samples.reduce((sum, { logprobs }) => sum + logprobs.length, 0);
  const columns = {
    advantages: Float64Array.from(samples, ({ advantage }) => advantage),
    lengths: Int32Array.from(samples, ({ tokens }) => tokens.length),
    promptLengths: Int32Array.from(samples, ({ promptLength }) => promptLength),
    tokens: new Int32Array(total),
    logprobs: new Float32Array(responses),
    mask: new Uint8Array(responses).fill(1),
  };
  let at = 0;
  let answered = 0;
  for (const { tokens, logprobs, lossMask } of samples) {
    columns.tokens.set(tokens, at);
    columns.logprobs.set(logprobs, answered);
    if (lossMask) columns.mask.set(lossMask, answered);
    at += tokens.length;
    answered += logprobs.length;
  }
  return columns;
}

function checkSample(
  sample: TrainSample,
  index: number,
  { vocab, maxContext }: Pick<EngineInfo, "vocab" | "maxContext">,
): void {
  const require = (holds: boolean, field: string, value: number, rule: string): void => {
    if (!holds) throw errors.EngineSampleInvalid({ index, field, value, rule });
  };
  const { tokens, promptLength, logprobs, lossMask, advantage } = sample;
  require(tokens.length <= maxContext, "tokens.length", tokens.length, `at most the context of ${maxContext}`);
  require(promptLength >= 1 && promptLength < tokens.length, "promptLength", promptLength, "1 … tokens − 1");
  const response = tokens.length - promptLength;
  require(logprobs.length === response, "logprobs.length", logprobs.length, `the response length ${response}`);
  require((lossMask?.length ?? response) === response, "lossMask.length", lossMask?.length ?? 0, String(response));
  require(Number.isFinite(advantage), "advantage", advantage, "finite");
  const wild = tokens.find((token) => token < 0 || token >= vocab);
  require(wild === undefined, "a token", wild ?? 0, `below the vocabulary of ${vocab}`);
}
