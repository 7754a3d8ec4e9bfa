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
  #logprobs: unknown[] | null = null;

  /** What the chunks say besides their choices: `id`, `model`, `created`, `metadata`; and how long the prompt is, where its tokens are known. */
  get head(): Table {
    if (!Array.isArray(this.#promptIds)) return this.#head;
    return { ...this.#head, usage: { prompt_tokens: this.#promptIds.length } };
  }

  /** Takes one chunk. @returns The text that it adds. */
  take({ choices, usage, prompt_token_ids: promptIds, ...head }: Table): string {
    this.#head = { ...this.#head, ...given(head) };
    this.#usage = usage ?? this.#usage;
    this.#promptIds = promptIds ?? this.#promptIds;
    const first: unknown = Array.isArray(choices) ? choices[0] : undefined;
    if (!isTable(first)) return "";
    const { index: _, delta, token_ids: ids, logprobs, finish_reason: finish, ...more } = first;
    this.#choice = { ...this.#choice, ...given(more) };
    this.#finish = finish ?? this.#finish;
    if (Array.isArray(ids)) this.#ids = appended(this.#ids, ids);
    if (isTable(logprobs) && Array.isArray(logprobs.content))
      this.#logprobs = appended(this.#logprobs, logprobs.content);
    return isTable(delta) ? this.#say(delta) : "";
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
      const before = this.#message[field];
      const isMore = field !== "role" && typeof value === "string" && typeof before === "string";
      return [field, isMore ? before + value : value];
    });
    this.#message = { ...this.#message, ...Object.fromEntries(grown) };
    if (typeof content !== "string" || content === "") return "";
    this.#texts.push(content);
    return content;
  }

  /** A call comes in pieces, which name its place. */
  #call({ index, function: called, ...fields }: Table): void {
    const call = this.#calls.get(index) ?? { fields: {}, name: "", args: "" };
    this.#calls.set(index, call);
    call.fields = { ...call.fields, ...given(fields) };
    if (!isTable(called)) return;
    if (typeof called.name === "string") call.name += called.name;
    if (typeof called.arguments === "string") call.args += called.arguments;
  }
}

function appended(before: unknown[] | null, more: readonly unknown[]): unknown[] {
  const all = before ?? [];
  for (const one of more) all.push(one);
  return all;
}
