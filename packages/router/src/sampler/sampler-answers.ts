/** Responses in the forms of SGLang and of the OpenAI API. Pure. */
import type { Generated, ToolCall } from "@muster/base";
import type { VersionSpan } from "../core/fence.ts";
import type { EngineRoute } from "../core/parse-request.ts";
import type { GrowingText } from "./growing-text.ts";
import { type Said, saidOf } from "./said.ts";
import type { SamplerTokenizer } from "./sampler-engine.ts";
import type { GenerationRequest } from "./sampler-request.ts";

/** What an answer is made from. */
export interface Shown {
  readonly route: EngineRoute;
  readonly id: string;
  readonly model: string;
  readonly wanted: GenerationRequest;
  readonly tokenizer: SamplerTokenizer;
  readonly createdS: number;
  /** Text of the one response that is looked at while it is drawn. */
  readonly growing?: GrowingText;
}

/** A whole answer. */
export function wholeAnswer(shown: Shown, drawn: readonly Generated[]): unknown {
  const said = drawn.map((one) => saidOf(shown, one, true));
  if (shown.route === "/generate") {
    const answers = said.map((one) => nativeOf(shown, one, true));
    return answers.length === 1 ? answers[0] : answers;
  }
  const isChat = shown.route === "/v1/chat/completions";
  const responses = said.map(({ response }) => response);
  const choices = said.map(({ response, text, calls, finish, stop }, index) => {
    const content = text === "" && calls.length > 0 ? null : text;
    const message = { role: "assistant", content, ...(calls.length > 0 ? { tool_calls: calls.map(callOf) } : {}) };
    const what = isChat ? { message } : { text };
    const ids = shown.wanted.withIds ? { token_ids: Array.from(response.responseIds) } : {};
    const logprobs = isChat && shown.wanted.withLogprobs ? { content: logprobsOf(shown, response) } : null;
    return { index, ...what, logprobs, ...ids, finish_reason: finish, ...(stop === null ? {} : { stop_reason: stop }) };
  });
  const completion = responses.reduce((sum, { responseIds }) => sum + responseIds.length, 0);
  const usage = usageOf(shown, completion);
  const ids = shown.wanted.withIds ? { prompt_token_ids: Array.from(shown.wanted.promptIds) } : {};
  const head = headOf(shown, isChat ? "chat.completion" : "text_completion");
  return { ...head, ...ids, choices, usage, ...metadataOf(responses) };
}

function callOf({ id, name, arguments: args }: ToolCall): object {
  return { id, type: "function", function: { name, arguments: args } };
}

/** Of the tokens from this one on. */
function logprobsOf({ tokenizer }: Shown, { responseIds, logprobs }: Generated, from = 0): readonly object[] {
  return Array.from(responseIds.subarray(from), (id, i) => {
    const token = tokenizer.decode(Int32Array.of(id));
    return { token, logprob: logprobs[from + i], bytes: [...Buffer.from(token)], top_logprobs: [] };
  });
}

/** What a stream has said of its response. */
export interface SaidSoFar {
  readonly text: string;
  readonly count: number;
}

/** One event of a stream: of `/generate` all that was drawn so far, else what came behind `before`. `isLast`: the response is whole. */
export function eventAnswer(
  shown: Shown,
  drawn: Generated,
  before: SaidSoFar,
  isLast: boolean,
): { readonly value: unknown; readonly after: SaidSoFar } {
  const said = saidOf(shown, drawn, isLast);
  const { text, calls, finish, stop, response } = said;
  const after = { text, count: response.responseIds.length };
  if (shown.route === "/generate") return { value: nativeOf(shown, said, isLast), after };
  const isChat = shown.route === "/v1/chat/completions";
  const piece = text.slice(before.text.length);
  const called = calls.map((call, index) => ({ index, ...callOf(call) }));
  const delta = {
    ...(before.text === "" ? { role: "assistant" } : {}),
    ...(piece === "" && called.length > 0 ? {} : { content: piece }),
    ...(called.length > 0 ? { tool_calls: called } : {}),
  };
  const end = isLast && stop !== null ? { stop_reason: stop } : {};
  const what = isChat ? { delta } : { text: piece };
  const { withIds, withLogprobs, promptIds } = shown.wanted;
  const ids = withIds ? { token_ids: Array.from(response.responseIds.subarray(before.count)) } : {};
  const logprobs = isChat && withLogprobs ? { content: logprobsOf(shown, response, before.count) } : null;
  const choices = [{ index: 0, ...what, logprobs, ...ids, finish_reason: isLast ? finish : null, ...end }];
  const prompt = withIds && before.count === 0 ? { prompt_token_ids: Array.from(promptIds) } : {};
  const head = headOf(shown, isChat ? "chat.completion.chunk" : "text_completion");
  return { value: { ...head, ...prompt, choices, ...metadataOf([response]) }, after };
}

/** The event with which a stream says how many tokens there were. */
export function usageEvent(shown: Shown, count: number): unknown {
  const isChat = shown.route === "/v1/chat/completions";
  const head = headOf(shown, isChat ? "chat.completion.chunk" : "text_completion");
  return { ...head, choices: [], usage: usageOf(shown, count) };
}

function usageOf({ wanted }: Shown, completion: number): object {
  const prompt = wanted.promptIds.length;
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

function headOf({ id, model, createdS }: Shown, object: string): object {
  return { id, object, created: createdS, model };
}

function nativeOf(shown: Shown, { response, text, stop }: Said, isLast: boolean): object {
  const { responseIds, logprobs, finish, versionAtEnd } = response;
  const ids = Array.from(responseIds);
  const reason =
    finish === "stop"
      ? { type: "stop", matched: stop ?? ids.at(-1) }
      : finish === "length"
        ? { type: "length", length: ids.length }
        : { type: "abort", message: "it was aborted" };
  return {
    text,
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

function metadataOf(responses: readonly Generated[]): object {
  const last = responses.at(-1);
  return last ? { metadata: { weight_version: `${last.versionAtEnd}`, weight_versions: spansOf(last) } } : {};
}

/** Where weights changed in the middle the engine does not say at which token: then both versions stand for all of them. */
function spansOf({ versionAtStart, versionAtEnd, responseIds }: Generated): readonly VersionSpan[] {
  const span = (version: number): VersionSpan => ({ version: `${version}`, start: 0, end: responseIds.length });
  return versionAtStart === versionAtEnd ? [span(versionAtEnd)] : [span(versionAtStart), span(versionAtEnd)];
}
