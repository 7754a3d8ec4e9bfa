/** What holds for the requests of every sampler: sizes and ids within the model. */
import type { EngineInfo, GenerateRequest } from "./engine.ts";
import { errors } from "./errors.ts";

/** Refuses a request where a rule does not hold. @throws MUSTER_ERR_ENGINE_REQUEST_INVALID */
export type Require = (holds: boolean, field: string, value: number, rule: string) => void;

/**
 * Checks what every engine wants of a request. Pure.
 *
 * @returns By which an engine refuses what it alone can not do.
 * @throws MUSTER_ERR_ENGINE_REQUEST_INVALID
 */
export function checkRequest({ vocab, maxContext }: EngineInfo, request: GenerateRequest): Require {
  const { requestId, promptIds, n, seed } = request;
  const require: Require = (holds, field, value, rule) => {
    if (!holds) throw errors.EngineRequestInvalid({ requestId, field, value, rule });
  };
  const { length } = promptIds;
  require(length >= 1 && length < maxContext, "prompt length", length, `1 … ${maxContext - 1}`);
  const wild = promptIds.find((id) => id < 0 || id >= vocab);
  require(wild === undefined, "a prompt token", wild ?? 0, `below the vocabulary of ${vocab}`);
  require(Number.isInteger(n) && n >= 1 && n <= 4096, "n", n, "1 … 4096");
  require(Number.isSafeInteger(seed), "seed", seed, "a whole number");
  return require;
}
