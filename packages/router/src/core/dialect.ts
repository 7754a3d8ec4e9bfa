/** Other APIs in front of chat completions: what their translations share. Pure. */
import { isTable } from "./answer-facts.ts";
import { invalid, type Reply } from "./reply.ts";

export type Table = Readonly<Record<string, unknown>>;

/** An API that is translated to chat completions and back. */
export interface Dialect {
  /** Under the address of the router, and under that of a session. */
  readonly path: string;
  /** The request as a chat request. @throws Refused with 400 that names what has no counterpart */
  readonly chatOf: (request: Table) => Table;
  /** A chat answer to this request, in the form of the API. */
  readonly answerOf: (answer: Table, request: Table) => Table;
  /** The events of a stream that answers this request. */
  readonly eventsOf: (request: Table) => EventWriter;
  /** The body of an error; left out where it is the one of chat completions. */
  readonly errorOf?: (error: Pick<Reply, "status" | "message">) => string;
}

/**
 * One answer as the events of an API, while it is drawn: `begin` once, `text` for each piece, then `end` or `fail`. What an agent acts on, which is the
 * calls of tools and the end, is in `end` alone: nobody sees it before the answer is whole.
 */
export interface EventWriter {
  /** @param head - `id`, `model` and `created` of the chat answer, and its prompt's tokens where they are known. */
  readonly begin: (head: Table) => string;
  readonly text: (piece: string) => string;
  /** What may stand between two events, so that a client that waits sees that somebody is there. */
  readonly ping: string;
  /** @param answer - The whole chat answer, whose text was said. */
  readonly end: (answer: Table) => string;
  readonly fail: (reply: Reply) => string;
}

/** Fields that every dialect has: where a request stands, and what only the router reads. */
export const ownFields = ["seed", "muster"];

/** @throws Refused for a field that is given and not in the list */
export function checkFields(table: Table, known: readonly string[], place = ""): void {
  const unknown = Object.keys(table).find((field) => isGiven(table[field]) && !known.includes(field));
  if (unknown !== undefined) throw untranslated(`${place}${unknown.slice(0, 64)}`);
}

/** What stands in a request and has no counterpart in chat completions. */
export function untranslated(place: string): Error {
  return invalid(`${place}: this can not be translated to chat completions; leave it out`);
}

export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Those of the fields that are given. */
export function given(table: Table): Table {
  return Object.fromEntries(Object.entries(table).filter(([, value]) => isGiven(value)));
}

/** @throws Refused unless it is a list of objects */
export function tablesIn(value: unknown, place: string): readonly Table[] {
  if (Array.isArray(value) && value.every(isTable)) return value;
  throw invalid(`${place} must be a list of objects`);
}

/** @throws Refused unless it is a text */
export function textIn(value: unknown, place: string): string {
  if (typeof value === "string") return value;
  throw invalid(`${place} must be a text`);
}

/** What the choice of a chat answer says, in the words of chat completions. */
export interface ChatChoice {
  readonly id: string;
  readonly text: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly args: string }[];
  readonly finish: unknown;
  /** Text that ended the response, where the engine says it: as vLLM and SGLang do. */
  readonly stop: string | null;
  readonly promptTokens: number;
  readonly responseTokens: number;
}

/** Reads the first choice. */
export function choiceOf(answer: Table): ChatChoice {
  const first: unknown = Array.isArray(answer.choices) ? answer.choices[0] : undefined;
  const choice = isTable(first) ? first : {};
  const message = isTable(choice.message) ? choice.message : {};
  const usage = isTable(answer.usage) ? answer.usage : {};
  const id = typeof answer.id === "string" ? answer.id : "0";
  const calls = Array.isArray(message.tool_calls) ? message.tool_calls.filter(isTable) : [];
  const stop = choice.stop_reason ?? choice.matched_stop;
  return {
    ...{ id, text: typeof message.content === "string" ? message.content : "", finish: choice.finish_reason },
    calls: calls.map((call, i) => {
      const called = isTable(call.function) ? call.function : {};
      const args = typeof called.arguments === "string" ? called.arguments : JSON.stringify(called.arguments ?? {});
      return { id: typeof call.id === "string" ? call.id : `call_${id}_${i}`, name: `${called.name ?? ""}`, args };
    }),
    stop: typeof stop === "string" ? stop : null,
    promptTokens: countOf(usage.prompt_tokens),
    responseTokens: countOf(usage.completion_tokens),
  };
}

function countOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

/** An event with a name: the type of its data. */
export function namedEvent(data: Table): string {
  return `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`;
}
