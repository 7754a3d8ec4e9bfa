/** Requests of SGLang and of the OpenAI API as an engine of Muster takes them. What it can not do is refused by name, and never left out. Pure. */
import {
  type ChatMessage,
  hasCode,
  MusterError,
  messageOf,
  mixSeed,
  type SamplingOptions,
  type ToolParserName,
} from "@muster/base";
import { isTable } from "../core/answer-facts.ts";
import type { EngineRoute, engineRoutes } from "../core/parse-request.ts";
import { invalid, Refused } from "../core/reply.ts";
import { type AskedTools, askedToolsOf, chatMessagesOf } from "./chat-request.ts";
import type { SamplerTokenizer } from "./sampler-engine.ts";

type Table = Readonly<Record<string, unknown>>;

/** What is to be drawn, and how it is shown. */
export interface GenerationRequest {
  readonly promptIds: Int32Array;
  readonly n: number;
  readonly sampling: SamplingOptions;
  readonly seed: number;
  readonly isStream: boolean;
  readonly withLogprobs: boolean;
  /** Token ids of prompt and responses are in the answer, as vLLM's `return_token_ids` has it. */
  readonly withIds: boolean;
  /** The last event of a stream says how many tokens there were, as OpenAI's `stream_options.include_usage` has it. */
  readonly withUsage: boolean;
  /** Texts that end a response. */
  readonly stops: readonly string[];
  /** How calls of tools are read out of a response; `null`: all of it is text. */
  readonly toolParser: ToolParserName | null;
  /** A response ends with its first call. */
  readonly isOneCall: boolean;
}

/** Fields that change nothing here, by route; all others are either read or refused. */
const ignored: Readonly<Record<EngineRoute, readonly string[]>> = {
  "/generate": ["rid", "logprob_start_len", "return_text_in_logprobs", "model", "priority"],
  "/v1/completions": ["model", "user", "metadata"],
  "/v1/chat/completions": [
    ...["model", "user", "metadata"],
    ...["store", "service_tier", "prompt_cache_key", "safety_identifier"],
  ],
};

/** Values of parameters that ask for nothing. */
const neutral: Readonly<Record<string, readonly unknown[]>> = {
  ...{ min_p: [0], frequency_penalty: [0], presence_penalty: [0], repetition_penalty: [1], min_new_tokens: [0] },
  ...{ logprobs: [null, false, 0], top_logprobs: [null, 0], top_logprobs_num: [0], echo: [false] },
  ...{ best_of: [1], suffix: [null], regex: [null], json_schema: [null] },
};

const samplingKeys = [
  "temperature",
  "max_new_tokens",
  "top_p",
  "top_k",
  "stop_token_ids",
  "n",
  "sampling_seed",
  "ignore_eos",
  "stop",
];
const shownKeys = ["skip_special_tokens", "spaces_between_special_tokens", "no_stop_trim"];
const newTokensDefault = 128;
const responsesMax = 64;
const [stopsMax, stopCharactersMax] = [16, 256];

/** Reads a request. `freshSeed` is taken where it names no seed. @throws Refused with 400 */
export function wantedOf(
  route: EngineRoute,
  body: Table,
  tokenizer: SamplerTokenizer,
  freshSeed: number,
): GenerationRequest {
  const isNative = route === "/generate";
  const { sampling_params: inner = {} } = body;
  if (isNative && !isTable(inner)) throw invalid("sampling_params must be an object");
  const from: Table = isNative ? (inner as Table) : openAiSampling(body);
  refuseUnknown(isNative ? from : {}, [...samplingKeys, ...shownKeys], "sampling_params.");
  refuseUnknown(body, fieldsOf(route), "");
  checkFormat(body.response_format);
  const stops = stopsOf(from.stop);
  if (stops.length > 0 && from.no_stop_trim === true)
    throw invalid("sampling_params.no_stop_trim is not supported by this sampler with stop");
  const asked = askedToolsOf(body, tokenizer);
  const promptIds = promptOf(route, body, tokenizer, asked);
  const n = whole("n", from.n ?? 1, 1, responsesMax);
  const isStream = body.stream === true;
  if (isStream && n > 1) throw invalid(`n is ${n}; a stream has one response`);
  const seed =
    from.sampling_seed === undefined ? freshSeed : whole("seed", from.sampling_seed, 0, Number.MAX_SAFE_INTEGER);
  return {
    ...{ promptIds, n, isStream, withLogprobs: body.return_logprob === true || isChatLogprobs(route, body) },
    ...{ withIds: body.return_token_ids === true, withUsage: isStream && isUsageAsked(body) },
    ...{ stops, toolParser: asked.parser, isOneCall: asked.isOneCall },
    sampling: samplingOf(from, tokenizer),
    // A response that goes on elsewhere comes with a longer prompt: it must not draw the random numbers of its beginning again.
    seed: mixSeed(seed, promptIds.length),
  };
}

function fieldsOf(route: EngineRoute): readonly string[] {
  const openAi = [
    ...["temperature", "max_tokens", "max_completion_tokens", "top_p", "n", "seed", "stop"],
    ...["stream", "stream_options"],
  ];
  const chat = ["messages", "logprobs", "return_token_ids", "tools", "tool_choice", "parallel_tool_calls"];
  const own: Readonly<Record<(typeof engineRoutes)[number], readonly string[]>> = {
    "/generate": ["text", "input_ids", "sampling_params", "stream", "return_logprob"],
    "/v1/completions": ["prompt", "return_token_ids", ...openAi],
    "/v1/chat/completions": [...chat, "response_format", ...openAi],
  };
  return [...own[route], ...ignored[route]];
}

function isChatLogprobs(route: EngineRoute, { logprobs, return_token_ids: ids }: Table): boolean {
  if (ids !== undefined && typeof ids !== "boolean") throw invalid("return_token_ids must be true or false");
  if (route !== "/v1/chat/completions") return false;
  if (logprobs !== undefined && logprobs !== null && typeof logprobs !== "boolean")
    throw invalid("logprobs must be true or false");
  return logprobs === true;
}

function isUsageAsked({ stream_options: options }: Table): boolean {
  if (options === undefined || options === null) return false;
  if (!isTable(options)) throw invalid("stream_options must be an object");
  return options.include_usage === true;
}

function refuseUnknown(table: Table, known: readonly string[], prefix: string): void {
  for (const [key, value] of Object.entries(table)) {
    const isNothing = neutral[key]?.includes(value) || (Array.isArray(value) && value.length === 0);
    if (!known.includes(key) && !isNothing)
      throw invalid(`${prefix}${key.slice(0, 64)} is not supported by this sampler`);
  }
}

/** A format is a promise that free drawing can not keep. */
function checkFormat(format: unknown): void {
  if (format === undefined || format === null || (isTable(format) && format.type === "text")) return;
  const asked = isTable(format) ? `of type ${JSON.stringify(format.type)?.slice(0, 64)}` : "that is no object";
  throw invalid(`response_format ${asked}: this sampler promises no form of its text; leave it out`);
}

function stopsOf(value: unknown): readonly string[] {
  const stops: readonly unknown[] = value === undefined || value === null || value === "" ? [] : [value].flat();
  const isText = (one: unknown): one is string =>
    typeof one === "string" && one.length > 0 && one.length <= stopCharactersMax;
  if (stops.length <= stopsMax && stops.every(isText)) return stops;
  throw invalid(`stop must be a text, or a list of at most ${stopsMax}, each of 1 to ${stopCharactersMax} characters`);
}

function openAiSampling(body: Table): Table {
  const { temperature, top_p: topP, n, seed, max_tokens: most, max_completion_tokens: newer, stop } = body;
  const given = { temperature, top_p: topP, n, stop, sampling_seed: seed ?? undefined, max_new_tokens: newer ?? most };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && value !== null));
}

function samplingOf(from: Table, { stopTokenIds }: SamplerTokenizer): SamplingOptions {
  const more = from.stop_token_ids ?? [];
  if (!Array.isArray(more) || more.length > 64 || !more.every((id) => Number.isSafeInteger(id) && id >= 0))
    throw invalid("stop_token_ids must be a list of at most 64 token ids");
  const topP = numberIn("top_p", from.top_p ?? 1);
  const topK = numberIn("top_k", from.top_k ?? -1);
  return {
    temperature: numberIn("temperature", from.temperature ?? 1),
    maxNewTokens: whole("max_new_tokens", from.max_new_tokens ?? newTokensDefault, 1, 1_048_576),
    stopTokenIds: from.ignore_eos === true ? more : [...stopTokenIds, ...more],
    ...(topP === 1 ? {} : { topP }),
    ...(topK === -1 || topK === 0 ? {} : { topK }),
  };
}

function promptOf(route: EngineRoute, body: Table, tokenizer: SamplerTokenizer, asked: AskedTools): Int32Array {
  if (route === "/v1/chat/completions") return chatOf(chatMessagesOf(body.messages), tokenizer, asked);
  const [field, value] =
    route === "/v1/completions"
      ? (["prompt", body.prompt] as const)
      : body.input_ids === undefined || body.input_ids === null
        ? (["text", body.text] as const)
        : (["input_ids", body.input_ids] as const);
  if (typeof value === "string") return encoded(field, () => tokenizer.encode(value));
  const isIds =
    Array.isArray(value) && value.length > 0 && value.every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 31);
  if (!isIds)
    throw invalid(`${field} must be one text or one list of token ids; this sampler takes one prompt a request`);
  return Int32Array.from(value as readonly number[]);
}

function chatOf(
  messages: readonly ChatMessage[],
  tokenizer: SamplerTokenizer,
  { tools }: Pick<AskedTools, "tools">,
): Int32Array {
  // A model without a template has learned no turns: it is given what was said last.
  return encoded("messages", () =>
    tokenizer.encodeChat
      ? byTemplate(tokenizer.encodeChat, messages, tools)
      : tokenizer.encode(messages.at(-1)?.content ?? ""),
  );
}

/** What a template throws is its own word on the conversation, such as that roles must alternate: no engine can draw it. */
function byTemplate(
  encodeChat: NonNullable<SamplerTokenizer["encodeChat"]>,
  messages: readonly ChatMessage[],
  tools: AskedTools["tools"],
): Int32Array {
  try {
    return encodeChat(messages, tools);
  } catch (error) {
    if (error instanceof Refused || error instanceof MusterError) throw error;
    throw invalid(`messages: the chat template refuses them: ${messageOf(error).slice(0, 300)}`);
  }
}

function encoded(field: string, encode: () => Int32Array): Int32Array {
  try {
    const ids = encode();
    if (ids.length === 0) throw invalid(`${field} has no tokens`);
    return ids;
  } catch (error) {
    // The host's fault, and not that of what was asked.
    if (hasCode(error, "MUSTER_ERR_TEMPLATE_THREAD")) throw error;
    throw error instanceof MusterError ? invalid(`${field}: ${error.message}`) : error;
  }
}

function whole(field: string, value: unknown, min: number, max: number): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw invalid(`${field} must be a whole number from ${min} to ${max}`);
}

function numberIn(field: string, value: unknown): number {
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw invalid(`${field} must be a number`);
}
