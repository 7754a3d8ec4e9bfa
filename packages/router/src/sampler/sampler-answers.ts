/** Responses in the forms of SGLang and of the OpenAI API. Pure. */
import type { Generated } from "@muster/base";
import type { VersionSpan } from "../core/fence.ts";
import type { EngineRoute } from "../core/parse-request.ts";
import type { SamplerTokenizer } from "./sampler-engine.ts";
import type { Wanted } from "./sampler-request.ts";

/** What an answer is made from. */
export interface Shown {
  readonly route: EngineRoute;
  readonly id: string;
  readonly model: string;
  readonly wanted: Wanted;
  readonly tokenizer: SamplerTokenizer;
  readonly createdS: number;
}

/** A whole answer. */
export function wholeAnswer(shown: Shown, responses: readonly Generated[]): unknown {
  if (shown.route === "/generate") {
    const answers = responses.map((response) => nativeOf(shown, response, true));
    return answers.length === 1 ? answers[0] : answers;
  }
  const isChat = shown.route === "/v1/chat/completions";
  const choices = responses.map((response, index) => {
    const text = textOf(shown, response, true);
    const what = isChat ? { message: { role: "assistant", content: text } } : { text };
    const ids = shown.wanted.withIds ? { token_ids: Array.from(response.responseIds) } : {};
    const logprobs = isChat && shown.wanted.withLogprobs ? { content: logprobsOf(shown, response) } : null;
    return { index, ...what, logprobs, ...ids, finish_reason: response.finish };
  });
  const completion = responses.reduce((sum, { responseIds }) => sum + responseIds.length, 0);
  const prompt = shown.wanted.promptIds.length;
  const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
  const ids = shown.wanted.withIds ? { prompt_token_ids: Array.from(shown.wanted.promptIds) } : {};
  const head = headOf(shown, isChat ? "chat.completion" : "text_completion");
  return { ...head, ...ids, choices, usage, ...metadataOf(responses) };
}

function logprobsOf({ tokenizer }: Shown, { responseIds, logprobs }: Generated): readonly object[] {
  return Array.from(responseIds, (id, i) => {
    const token = tokenizer.decode(Int32Array.of(id));
    return { token, logprob: logprobs[i], bytes: [...Buffer.from(token)], top_logprobs: [] };
  });
}

/** One event of a stream: of `/generate` all that was drawn so far, else the text behind `before`. `isLast`: the response is whole. */
export function eventAnswer(
  shown: Shown,
  response: Generated,
  before: string,
  isLast: boolean,
): { readonly value: unknown; readonly text: string } {
  const text = textOf(shown, response, isLast);
  if (shown.route === "/generate") return { value: nativeOf(shown, response, isLast), text };
  const isChat = shown.route === "/v1/chat/completions";
  const piece = text.slice(before.length);
  const what = isChat
    ? { delta: { ...(before === "" ? { role: "assistant" } : {}), content: piece } }
    : { text: piece };
  const choices = [{ index: 0, ...what, logprobs: null, finish_reason: isLast ? response.finish : null }];
  return {
    value: {
      ...headOf(shown, isChat ? "chat.completion.chunk" : "text_completion"),
      choices,
      ...metadataOf([response]),
    },
    text,
  };
}

function headOf({ id, model, createdS }: Shown, object: string): object {
  return { id, object, created: createdS, model };
}

function nativeOf(shown: Shown, response: Generated, isLast: boolean): object {
  const { responseIds, logprobs, finish, versionAtEnd } = response;
  const ids = Array.from(responseIds);
  const reason =
    finish === "stop"
      ? { type: "stop", matched: ids.at(-1) }
      : finish === "length"
        ? { type: "length", length: ids.length }
        : { type: "abort", message: "it was aborted" };
  return {
    text: textOf(shown, response, isLast),
    output_ids: ids,
    meta_info: {
      id: shown.id,
      finish_reason: isLast ? reason : null,
      prompt_tokens: shown.wanted.promptIds.length,
      completion_tokens: ids.length,
      ...(shown.wanted.withLogprobs ? { output_token_logprobs: ids.map((id, i) => [logprobs[i], id, null]) } : {}),
      weight_version: `${versionAtEnd}`,
      weight_versions: spansOf(response),
    },
  };
}

/** Text without the token that ended it. */
function textOf({ tokenizer, wanted }: Shown, { responseIds, finish }: Generated, isLast: boolean): string {
  const ends = isLast && finish === "stop" && wanted.sampling.stopTokenIds.includes(responseIds.at(-1) ?? -1);
  return tokenizer.decode(ends ? responseIds.subarray(0, -1) : responseIds);
}

function metadataOf(responses: readonly Generated[]): object {
  const last = responses.at(-1);
  return last ? { metadata: { weight_version: `${last.versionAtEnd}`, weight_versions: spansOf(last) } } : {};
}

/** Where weights changed in the middle the engine does not say at which token: then both versions stand for all of them. */
function spansOf({ versionAtStart, versionAtEnd, responseIds }: Generated): readonly VersionSpan[] {
  const span = (version: number): VersionSpan => ({ version: `${version}`, start: 0, end: responseIds.length });
  return versionAtStart === versionAtEnd ? [span(versionAtEnd)] : [span(versionAtStart), span(versionAtEnd)];
}
