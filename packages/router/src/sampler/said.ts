/** What a response says: where a stop text cuts it, and which tools it calls. Pure. */
import { createHash } from "node:crypto";
import type { Generated, ToolCall } from "@muster/base";
import { partOfAny, toolParserOf } from "../core/tool-calls.ts";
import { type GrowingText, withoutIncomplete } from "./growing-text.ts";
import type { SamplerTokenizer } from "./sampler-engine.ts";
import type { GenerationRequest } from "./sampler-request.ts";

/** A response as it is answered. */
export interface Said {
  /** Its tokens: those that an engine has drawn which looks for stop texts behind each token. */
  readonly response: Generated;
  /** Text without what ended it, and without calls. Of a response that goes on: what will stay. */
  readonly text: string;
  readonly calls: readonly ToolCall[];
  readonly finish: Generated["finish"] | "tool_calls";
  /** The stop text that ended it. */
  readonly stop: string | null;
}

type Tools = {
  readonly wanted: GenerationRequest;
  readonly tokenizer: SamplerTokenizer;
  /** Text of the one response that is looked at while it is drawn. */
  readonly growing?: GrowingText;
};

/** Reads a response. `isLast`: no more of it comes. */
export function saidOf(tools: Tools, drawn: Generated, isLast: boolean): Said {
  const { wanted } = tools;
  const cut = cutOf(tools, drawn, isLast);
  const { response, stop, isOver = isLast } = cut;
  const parser = wanted.toolParser === null ? null : toolParserOf(wanted.toolParser);
  if (!isOver) {
    // A character of which some bytes are still to come may also be the one with which a stop text goes on.
    const whole = withoutIncomplete(cut.text);
    const certain = whole.slice(0, whole.length - partOfAny(whole, marksOf(wanted)));
    const shown = parser ? certain.slice(0, parser.shownLength(certain)) : certain;
    return { response, text: shown, calls: [], finish: response.finish, stop };
  }
  const parsed = parser?.parse(cut.text) ?? null;
  if (!parsed) return { response, text: cut.text, calls: [], finish: response.finish, stop };
  const key = `${wanted.seed} ${wanted.promptIds.length} ${response.responseIds.join(" ")}`;
  const calls = parsed.calls.map((call, i) => ({ id: callId(`${key} ${i}`), ...call }));
  const finish = response.finish === "stop" ? "tool_calls" : response.finish;
  return { response, text: parsed.content, calls, finish, stop };
}

/** True when something in a response may end it: then it is looked at while it is drawn. */
export function mayBeCut(wanted: GenerationRequest): boolean {
  return marksOf(wanted).length > 0;
}

/** True when a stop text stands in what is drawn: the rest is drawn for nobody. `isLast`: no more of it comes anyway. */
export function isCut(tools: Tools, drawn: Generated, isLast: boolean): boolean {
  return mayBeCut(tools.wanted) && cutOf(tools, drawn, isLast).isOver === true;
}

interface Cut {
  readonly response: Generated;
  readonly text: string;
  readonly stop: string | null;
  readonly isOver?: true;
}

/** The response up to the first token with which a stop text is whole. */
function cutOf({ wanted, tokenizer, growing }: Tools, drawn: Generated, isLast: boolean): Cut {
  const marks = marksOf(wanted);
  const { responseIds, finish } = drawn;
  const isEnded = finish === "stop" && wanted.sampling.stopTokenIds.includes(responseIds.at(-1) ?? -1);
  const textIds = isEnded ? responseIds.subarray(0, -1) : responseIds;
  const text = growing && !isLast ? growing.textOf(textIds) : tokenizer.decode(textIds);
  const has = (part: string): boolean => marks.some((mark) => part.includes(mark));
  if (!has(text)) return { response: drawn, text, stop: null };
  let [low, high] = [1, textIds.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (has(tokenizer.decode(textIds.subarray(0, middle)))) high = middle;
    else low = middle + 1;
  }
  const ids = responseIds.subarray(0, low);
  const said = tokenizer.decode(ids);
  const first = marks.filter((mark) => said.includes(mark)).sort((a, b) => said.indexOf(a) - said.indexOf(b))[0] ?? "";
  const isAsked = wanted.stops.includes(first);
  return {
    response: { ...drawn, responseIds: ids, logprobs: drawn.logprobs.subarray(0, low), finish: "stop" },
    // The end of a call is a part of the call.
    text: said.slice(0, said.indexOf(first) + (isAsked ? 0 : first.length)),
    ...{ stop: isAsked ? first : null, isOver: true },
  };
}

function marksOf({ stops, toolParser, isOneCall }: GenerationRequest): readonly string[] {
  const end = isOneCall && toolParser !== null ? toolParserOf(toolParser).end : null;
  return end === null ? stops : [...stops, end];
}

/** Drawn again, a response has calls of the same ids: the conversation that goes on is the same, too. */
function callId(key: string): string {
  return `call_${createHash("sha256").update(key).digest("hex").slice(0, 24)}`;
}
