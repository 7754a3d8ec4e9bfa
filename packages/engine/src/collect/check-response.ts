/** Whether a response may be trained on: lengths, tokens and log-probs agree with each other and with the model (reliability G5). */
import type { ChatMessage, Judged } from "@muster/base";
import type { EngineInfo } from "../engine.ts";
import { errors } from "../errors.ts";

/** One response of one sample, from the engine or from a module. */
export interface Response {
  readonly responseIds: Int32Array;
  /** Of each response token; response length. */
  readonly logprobs: Float32Array;
  /** 1 where a token takes part in the loss; response length. */
  readonly lossMask: Uint8Array;
  readonly finish: "stop" | "length";
  /** What was read before the response, where that is not the sample's prompt. */
  readonly promptIds?: Int32Array;
  /** Where it is known without the job's reward. */
  readonly judged?: Judged;
  /** For the job's reward. */
  readonly messages?: readonly ChatMessage[];
  /** Runs of tokens by the weights that drew them; they tile the response. */
  readonly segments: readonly { readonly version: number; readonly from: number; readonly to: number }[];
}

/** Log-probs are rounded: one may be a little over 0. */
const logprobMax = 1e-3;

/** Where a response comes from, for errors: the engine, or the file of a module. */
export interface ResponseOrigin {
  readonly from: string;
  readonly promptLength: number;
}

/** Checks a response to a prompt of `promptLength` tokens. @throws MUSTER_ERR_TRAJECTORY_INVALID naming what is wrong, and whose it is. */
export function checkResponse(response: Response, { from, promptLength }: ResponseOrigin, info: EngineInfo): Response {
  const { responseIds, logprobs, lossMask, promptIds = [] } = response;
  const reject = (reason: string): never => {
    throw errors.TrajectoryInvalid({ from, reason });
  };
  const { length } = responseIds;
  if (length < 1) return reject("responseIds is empty; a response has at least its end token");
  if (length + promptLength > info.maxContext)
    return reject(
      `responseIds has ${length} tokens after ${promptLength} prompt tokens in a context of ${info.maxContext}`,
    );
  if (logprobs.length !== length) return reject(`logprobs has ${logprobs.length} numbers for ${length} tokens`);
  if (lossMask.length !== length) return reject(`lossMask has ${lossMask.length} numbers for ${length} tokens`);
  for (const [field, ids] of Object.entries({ responseIds, promptIds })) {
    const wild = ids.find((id) => id < 0 || id >= info.vocab);
    if (wild !== undefined) return reject(`${field} has token ${wild}, outside of the vocabulary of ${info.vocab}`);
  }
  const odd = logprobs.find((value) => !Number.isFinite(value) || value > logprobMax);
  return odd === undefined ? response : reject(`logprobs has ${odd}; each must be finite and at most 0`);
}
