/** A chat answer put together from the events of its stream, in the form of one that came whole. Pure but for its own state. */
import { isTable } from "./answer-facts.ts";
import { given, type Table } from "./dialect.ts";

interface WrittenCall {
  fields: Table;
  name: string;
  args: string;
}

/** One answer while it is drawn. Reads the chunks of OpenAI, and what vLLM adds to them for `return_token_ids`. */
export class ChatStream {
  #head: Table = {};
  #usage: unknown;
  #promptIds: unknown;
  #choice: Table = {};
  #message: Table = {};
  #finish: unknown = null;
  readonly #texts: string[] = [];
  readonly #calls = new Map<unknown, WrittenCall>();
  #ids: unknown[] | null = null;
  #logprobs: { readonly logprob: unknown }[] | null = null;
  #bytes = 0;
  #headBytes = 0;

  /** What is kept of the chunks, about: text as UTF-8, and what each number takes. Most of what a chunk says of its token is said of each. */
  get bytes(): number {
    return this.#bytes + this.#headBytes;
  }

  /** What the chunks say besides their choices: `id`, `model`, `created`, `metadata`; and how long the prompt is, where its tokens are known. */
  get head(): Table {
    if (!Array.isArray(this.#promptIds)) return this.#head;
    return { ...this.#head, usage: { prompt_tokens: this.#promptIds.length } };
  }

  /** Takes one chunk. @returns The text that it adds. */
  take({ choices, usage, prompt_token_ids: promptIds, ...head }: Table): string {
    const first: unknown = Array.isArray(choices) ? choices[0] : undefined;
    this.#usage = usage ?? this.#usage;
    this.#promptIds = promptIds ?? this.#promptIds;
    this.#describe(given(head), isTable(first) ? first : {});
    if (!isTable(first)) return "";
    const { delta, token_ids: ids, logprobs, finish_reason: finish } = first;
    this.#finish = finish ?? this.#finish;
    if (Array.isArray(ids)) {
      this.#ids = appended(this.#ids, ids);
      this.#bytes += numberBytes * ids.length;
    }
    if (isTable(logprobs) && Array.isArray(logprobs.content)) {
      const drawn = logprobs.content.map((one: unknown) => ({ logprob: isTable(one) ? one.logprob : undefined }));
      this.#logprobs = appended(this.#logprobs, drawn);
      this.#bytes += numberBytes * drawn.length;
    }
    return isTable(delta) ? this.#say(delta) : "";
  }

  /** What is said once for the whole answer. It is measured when it changes: most chunks say the same as the one before. */
  #describe(head: Table, choice: Table): void {
    const more = Object.fromEntries(Object.entries(choice).filter(([field]) => !ofTokens.has(field)));
    const described = given(more);
    const isKnown =
      Object.entries(head).every(([field, value]) => value === this.#head[field]) &&
      Object.entries(described).every(([field, value]) => value === this.#choice[field]);
    if (isKnown && this.#headBytes > 0) return;
    this.#head = { ...this.#head, ...head };
    this.#choice = { ...this.#choice, ...described };
    const prompt = Array.isArray(this.#promptIds) ? numberBytes * this.#promptIds.length : 0;
    this.#headBytes = prompt + Buffer.byteLength(JSON.stringify([this.#head, this.#choice]));
  }

  /** The answer; `null` when nothing said how it ended. */
  whole(): Table | null {
    if (this.#finish === null) return null;
    const text = this.#texts.join("");
    const calls = [...this.#calls.values()].map(({ fields, name, args }) => ({
      ...fields,
      function: { name, arguments: args },
    }));
    const message = {
      ...{ role: "assistant", ...this.#message, content: text === "" && calls.length > 0 ? null : text },
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
    };
    const choice = {
      ...{ ...this.#choice, index: 0, message, finish_reason: this.#finish },
      ...{ logprobs: this.#logprobs ? { content: this.#logprobs } : null },
      ...(this.#ids ? { token_ids: this.#ids } : {}),
    };
    const more = given({ usage: this.#usage, prompt_token_ids: this.#promptIds });
    return { ...this.#head, object: "chat.completion", choices: [choice], ...more };
  }

  #say({ content, tool_calls: calls, ...fields }: Table): string {
    for (const call of Array.isArray(calls) ? calls.filter(isTable) : []) this.#call(call);
    const grown = Object.entries(given(fields)).map(([field, value]) => {
      if (typeof value === "string" && field !== "role") this.#bytes += Buffer.byteLength(value);
      const before = this.#message[field];
      const isMore = field !== "role" && typeof value === "string" && typeof before === "string";
      return [field, isMore ? before + value : value];
    });
    this.#message = { ...this.#message, ...Object.fromEntries(grown) };
    if (typeof content !== "string" || content === "") return "";
    this.#texts.push(content);
    this.#bytes += Buffer.byteLength(content);
    return content;
  }

  /** A call comes in pieces, which name its place. */
  #call({ index, function: called, ...fields }: Table): void {
    const call = this.#calls.get(index) ?? { fields: {}, name: "", args: "" };
    this.#calls.set(index, call);
    call.fields = { ...call.fields, ...given(fields) };
    if (!isTable(called)) return;
    for (const [field, to] of [
      ["name", "name"],
      ["arguments", "args"],
    ] as const) {
      const piece = called[field];
      if (typeof piece !== "string") continue;
      call[to] += piece;
      this.#bytes += Buffer.byteLength(piece);
    }
  }
}

/** Fields of a choice that are said of its new tokens. */
const ofTokens = new Set(["index", "delta", "token_ids", "logprobs", "finish_reason"]);

/** A number in a list, about. */
const numberBytes = 8;

function appended<T>(before: T[] | null, more: readonly T[]): T[] {
  const all = before ?? [];
  for (const one of more) all.push(one);
  return all;
}
