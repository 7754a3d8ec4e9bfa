/** The answer of an engine to a turn: what is recorded of it, and what the agent is shown. Pure. */
import { factsOf, isTable } from "./answer-facts.ts";
import { Refused } from "./reply.ts";
import type { Turn } from "./session.ts";

type Table = Readonly<Record<string, unknown>>;

/**
 * Reads a whole chat answer.
 *
 * @throws Refused with 502 for one without tokens: a session that can not be trained on is found at its first turn. With 503 for one that the engine
 *   gave up: recorded, it would be the answer for ever.
 */
export function answerOf(whole: Table): Pick<Turn, "answer" | "message" | "tokens"> {
  const { prompt_token_ids: promptIds, choices, ...rest } = whole;
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
  const { token_ids: responseIds, logprobs, message, ...shown } = isTable(choice) ? choice : {};
  if (shown.finish_reason === "abort")
    throw new Refused({
      ...{ status: 503, code: "engine_lost", retryAfter: 1 },
      message: "the engine gave the response up; the same request draws it anew",
    });
  const content = isTable(logprobs) && Array.isArray(logprobs.content) ? logprobs.content : [];
  const drawn = content.map((one: unknown) => (isTable(one) ? one.logprob : undefined));
  if (!isIds(promptIds) || !isIds(responseIds)) throw unusable("prompt_token_ids and choices[0].token_ids");
  if (!drawn.every((one) => typeof one === "number") || drawn.length !== responseIds.length)
    throw unusable("a log-probability for each token in choices[0].logprobs.content");
  // Some versions of vLLM leave tokens of calls out of their streams, log-probabilities and all: only its count knows of them.
  const counted = isTable(rest.usage) ? rest.usage.completion_tokens : undefined;
  if (typeof counted === "number" && counted !== responseIds.length)
    throw unusable(`some of its ${counted} tokens in choices[0].token_ids, which has ${responseIds.length}`);
  if (!isTable(message)) throw unusable("choices[0].message");
  const { spans, version } = factsOf(whole);
  const one = version === null ? [] : [{ version, start: 0, end: responseIds.length }];
  return {
    message,
    answer: { ...rest, choices: [{ ...shown, message, logprobs: null }] },
    tokens: { promptIds, responseIds, logprobs: drawn as number[], versions: spans.length > 0 ? spans : one },
  };
}

function isIds(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0);
}

function unusable(what: string): Refused {
  return new Refused({
    ...{ status: 502, code: "engine_failed" },
    message: `the engine's answer lacks ${what}; sessions need an engine that takes return_token_ids and logprobs`,
  });
}
