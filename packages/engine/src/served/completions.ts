/** `/v1/completions` with tokens in and out, as vLLM, llama.cpp and other servers of OpenAI's interface have it. */
import { tableIn } from "./client.ts";
import { type Draw, type Drawn, finishIn, numbersIn, textsIn } from "./dialect.ts";

/** Asks for one response. What a server does not know it leaves out; nothing but the temperature may shape the distribution. */
export function completionOf({ promptIds, seed, temperature, maxNewTokens, stopTokenIds, model }: Draw) {
  const body = {
    ...(model === "" ? {} : { model }),
    prompt: [...promptIds],
    max_tokens: maxNewTokens,
    temperature,
    seed,
    n: 1,
    stream: false,
    logprobs: 1,
    ...{ top_p: 1, top_k: 0, min_p: 0, repeat_penalty: 1, repetition_penalty: 1 },
    ...{ return_token_ids: true, return_tokens_as_token_ids: true, skip_special_tokens: false },
    stop_token_ids: stopTokenIds,
    ignore_eos: stopTokenIds.length === 0,
  };
  return { path: "/v1/completions", body };
}

/** Reads the one choice of an answer. Pure. @throws as {@link Dialect.drawnIn} */
export function completionIn(answer: Readonly<Record<string, unknown>>): Omit<Drawn, "versions"> {
  const choices = answer.choices;
  const choice = Array.isArray(choices) && choices.length === 1 ? tableIn(choices[0]) : null;
  if (!choice) throw new Error("has no choices, or not one");
  const finish = finishIn(choice.finish_reason);
  const logprobs = tableIn(choice.logprobs);
  if (!logprobs) {
    if (finish === "abort") return { ids: [], logprobs: [], finish };
    throw new Error("has no logprobs");
  }
  if (Array.isArray(logprobs.content)) {
    const content = logprobs.content.map(tableIn);
    const ids = numbersIn(
      content.map((one) => one?.id),
      "choices[0].logprobs.content[].id",
    );
    const values = numbersIn(
      content.map((one) => one?.logprob),
      "choices[0].logprobs.content[].logprob",
    );
    return { ids, logprobs: values, finish };
  }
  const values = numbersIn(logprobs.token_logprobs, "choices[0].logprobs.token_logprobs");
  const ids = Array.isArray(choice.token_ids)
    ? numbersIn(choice.token_ids, "choices[0].token_ids")
    : textsIn(logprobs.tokens, "choices[0].logprobs.tokens").map(idIn);
  return { ids, logprobs: values, finish };
}

function idIn(token: string): number {
  const id = /^token_id:(\d+)$/.exec(token)?.[1];
  if (id === undefined)
    throw new Error(
      "names tokens by their text and not by their ids: the server must know return_token_ids, or give ids with its log-probabilities",
    );
  return Number(id);
}
