/**
 * A stream of `/generate` that can go on at another engine: what was drawn so far, the request for the rest, and the rest's events rewritten as if
 * they were of one stream. Pure but for its own state.
 */
import { isTable, textOf } from "./answer-facts.ts";
import { joinSpans, type VersionSpan } from "./fence.ts";

type Table = Readonly<Record<string, unknown>>;

/** Parameters with which the rest of a response is drawn as the whole would have been. Penalties, grammars and stop texts look back. */
const resumable = new Set([
  ...["temperature", "top_p", "top_k", "min_p", "max_new_tokens", "stop_token_ids", "ignore_eos", "sampling_seed"],
  ...["skip_special_tokens", "spaces_between_special_tokens", "no_stop_trim", "n"],
]);

/** Fields of a request that may stand beside prompt and parameters. */
const resumableFields = new Set([
  ...["input_ids", "sampling_params", "stream", "rid", "return_logprob", "logprob_start_len"],
  ...["return_text_in_logprobs", "top_logprobs_num", "model", "priority"],
]);

/** Prompt tokens of a stream that can be continued; `null` when it can not. */
export function promptOf(body: Table): readonly number[] | null {
  const { input_ids: ids, sampling_params: sampling = {}, stream } = body;
  if (stream !== true || !isIds(ids) || !isTable(sampling)) return null;
  if (!Object.keys(body).every((key) => resumableFields.has(key))) return null;
  const isResumable =
    Object.entries(sampling).every(([key, value]) => resumable.has(key) && isExact(value)) && (sampling.n ?? 1) === 1;
  // Log-probs of the prompt would be given a second time, of the tokens so far.
  const isResponseOnly = body.return_logprob !== true || (body.logprob_start_len ?? -1) === -1;
  return isResumable && isResponseOnly && (body.top_logprobs_num ?? 0) === 0 ? ids : null;
}

/** The request for the rest is written anew: a whole number that JavaScript rounds would be another one in it. */
function isExact(value: unknown): boolean {
  return !Number.isInteger(value) || Number.isSafeInteger(value);
}

function isIds(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.length > 0 && value.every((id) => Number.isSafeInteger(id) && id >= 0);
}

/** What one engine has said of its part. */
interface Part {
  readonly from: number;
  ids: readonly number[];
  text: string;
  logprobs: readonly unknown[];
  spans: readonly VersionSpan[];
}

/** What one event adds to its part. */
interface Added {
  readonly ids: readonly number[];
  readonly text: string;
  readonly logprobs: readonly unknown[];
}

/** One response, drawn by one engine after another. */
export class TokenStream {
  readonly #body: Table;
  readonly #prompt: readonly number[];
  /** Parts that are over: their engines were lost. */
  #before: Part = emptyPart(0);
  #part: Part = emptyPart(0);
  #id: unknown = null;
  #isCumulative: boolean | null = null;
  #isSound = true;
  #isFinished = false;

  constructor(body: Table, prompt: readonly number[]) {
    this.#body = body;
    this.#prompt = prompt;
  }

  /** The engine has said that the response is complete. */
  get isFinished(): boolean {
    return this.#isFinished;
  }

  /** Which version drew which tokens, so far. */
  get spans(): readonly VersionSpan[] {
    return joinSpans(this.#before.spans, this.#part.spans);
  }

  /** False once an event was not understood, or all tokens that it may have are there: a rest can not be asked for. */
  get canContinue(): boolean {
    return this.#isSound && !this.#isFinished && this.#length < this.#most;
  }

  /** Tokens so far. */
  get #length(): number {
    return this.#before.ids.length + this.#part.ids.length;
  }

  /** Tokens that the response may have; 128 is SGLang's default. */
  get #most(): number {
    const { sampling_params: sampling } = this.#body;
    return isTable(sampling) && typeof sampling.max_new_tokens === "number" ? sampling.max_new_tokens : 128;
  }

  /**
   * Takes an event of the engine that draws now.
   *
   * @param probed - Version that the engine said when it was given the request, for engines whose answers name none.
   * @returns The event as the client is to see it; `null` when it can stay as it is.
   */
  take(event: Table, probed: string | null): Table | null {
    const { meta_info: meta, output_ids: ids, text } = event;
    if (!isTable(meta) || !isIdsOrEmpty(ids)) {
      this.#isSound = false;
      return null;
    }
    const logprobs = Array.isArray(meta.output_token_logprobs) ? meta.output_token_logprobs : [];
    const added = this.#add({ ids, text: typeof text === "string" ? text : "", logprobs, meta, probed });
    this.#id ??= meta.id ?? null;
    if (meta.finish_reason !== null && meta.finish_reason !== undefined) this.#isFinished = true;
    if (this.#before.ids.length === 0) return null;
    return this.#rewritten(event, meta, added);
  }

  /** The present engine is lost. @returns The request for the rest. */
  restRequest(): Table {
    this.#before = {
      from: 0,
      ids: [...this.#before.ids, ...this.#part.ids],
      text: this.#before.text + this.#part.text,
      logprobs: [...this.#before.logprobs, ...this.#part.logprobs],
      spans: this.spans,
    };
    const { length } = this.#before.ids;
    this.#part = emptyPart(length);
    const sampling = isTable(this.#body.sampling_params) ? this.#body.sampling_params : {};
    const { rid: _, ...body } = this.#body;
    return {
      ...body,
      input_ids: [...this.#prompt, ...this.#before.ids],
      sampling_params: { ...sampling, max_new_tokens: this.#most - length },
    };
  }

  #add(said: {
    readonly ids: readonly number[];
    readonly text: string;
    readonly logprobs: readonly unknown[];
    readonly meta: Table;
    readonly probed: string | null;
  }): Added {
    const { ids, text, logprobs, meta, probed } = said;
    const part = this.#part;
    const count = typeof meta.completion_tokens === "number" ? meta.completion_tokens : ids.length;
    const isWhole = ids.length === count;
    const isMore = part.ids.length + ids.length === count;
    if (!isWhole && !isMore) this.#isSound = false;
    // The first event is both; from the second on an engine shows whether its events repeat what came before.
    if (part.ids.length > 0 && ids.length > 0) this.#isCumulative ??= isWhole;
    this.#part = {
      from: part.from,
      ids: isWhole ? ids : [...part.ids, ...ids],
      text: isWhole ? text : part.text + text,
      logprobs: isWhole ? logprobs : [...part.logprobs, ...logprobs],
      spans: this.#spansOf(meta, count, probed),
    };
    if (!isWhole) return { ids, text, logprobs };
    return {
      ids: ids.slice(part.ids.length),
      text: text.slice(part.text.length),
      logprobs: logprobs.slice(part.logprobs.length),
    };
  }

  #spansOf(meta: Table, count: number, probed: string | null): readonly VersionSpan[] {
    const { from } = this.#part;
    if (Array.isArray(meta.weight_versions)) {
      const given = meta.weight_versions.filter(isTable).flatMap(({ version, start, end }) => {
        const name = textOf(version);
        return name === null ? [] : [{ version: name, start: Number(start) + from, end: Number(end) + from }];
      });
      if (given.length > 0) return given;
    }
    return [{ version: textOf(meta.weight_version) ?? probed ?? "unknown", start: from, end: from + count }];
  }

  #rewritten(event: Table, meta: Table, added: Added): Table {
    const isCumulative = this.#isCumulative ?? true;
    const whole = {
      ids: [...this.#before.ids, ...this.#part.ids],
      text: this.#before.text + this.#part.text,
      logprobs: [...this.#before.logprobs, ...this.#part.logprobs],
    };
    const shown = isCumulative ? whole : added;
    return {
      ...event,
      output_ids: shown.ids,
      ...(typeof event.text === "string" ? { text: shown.text } : {}),
      meta_info: {
        ...meta,
        id: this.#id,
        prompt_tokens: this.#prompt.length,
        completion_tokens: whole.ids.length,
        ...(this.#body.return_logprob === true ? { output_token_logprobs: shown.logprobs } : {}),
        weight_version: this.spans.at(-1)?.version,
        weight_versions: this.spans,
      },
    };
  }
}

function emptyPart(from: number): Part {
  return { from, ids: [], text: "", logprobs: [], spans: [] };
}

function isIdsOrEmpty(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0);
}
