/** Whether a response of a server can be one: every count and id is checked, because it came from outside. */
import { checkRequest } from "../check-request.ts";
import type { EngineInfo, Generated, GenerateRequest } from "../engine.ts";
import type { Drawn } from "./dialect.ts";

/** A response as the engine gives it. @throws an error that says what is wrong, as the end of the sentence "its answer …". Pure. */
export function generatedOf(
  { ids, logprobs, finish }: Drawn,
  { promptIds, sampling }: GenerateRequest,
  { info, version }: { readonly info: EngineInfo; readonly version: number },
): Generated {
  const { length } = ids;
  const room = Math.min(sampling.maxNewTokens, info.maxContext - promptIds.length);
  if (length > room) throw new Error(`has ${length} tokens, and there is room for ${room}`);
  if (logprobs.length !== length) throw new Error(`has ${length} tokens and ${logprobs.length} log-probabilities`);
  const wild = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= info.vocab);
  if (wild !== undefined) throw new Error(`has the token ${wild}, and there are ${info.vocab}`);
  const odd = logprobs.find((value) => !Number.isFinite(value) || value > 1e-3);
  if (odd !== undefined) throw new Error(`has the log-probability ${odd}`);
  if (length === 0 && finish !== "abort") throw new Error("has no token and was not aborted");
  const endsWithStop = sampling.stopTokenIds.includes(ids.at(-1) ?? -1);
  if (finish === "stop" && !endsWithStop)
    throw new Error(
      `stopped at the token ${ids.at(-1)}, and responses end with ${sampling.stopTokenIds.join(", ") || "none"}: its tokenizer has another end`,
    );
  return {
    responseIds: Int32Array.from(ids),
    logprobs: Float32Array.from(logprobs),
    finish: finish === "length" && endsWithStop ? "stop" : finish,
    versionAtStart: version,
    versionAtEnd: version,
  };
}

/** @throws MUSTER_ERR_ENGINE_REQUEST_INVALID. Pure. */
export function checkServedRequest(info: EngineInfo, request: GenerateRequest): void {
  const { begun, sampling } = request;
  const require = checkRequest(info, request);
  require(begun === undefined, "begun responses", begun?.length ?? 0, "absent: a server does not resume");
  const { temperature, maxNewTokens, topP = 1, topK = 0 } = sampling;
  // Log-probabilities are not those of a distribution that was cut.
  require(topP === 1, "topP", topP, "absent");
  require(topK === 0, "topK", topK, "absent");
  require(temperature >= 0 && temperature <= 1e3, "temperature", temperature, "0 … 1000");
  require(Number.isInteger(maxNewTokens) && maxNewTokens >= 1, "maxNewTokens", maxNewTokens, "at least 1");
}
