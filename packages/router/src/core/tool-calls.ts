/** Calls of tools in what a model wrote. Each form is named as inference servers name their parser of it. Pure. */
import type { ToolParserName } from "@muster/base";
import { isTable, tableOf } from "./answer-facts.ts";

/** A call, as it stands in a text; who answers gives it an id. */
export interface WrittenCall {
  readonly name: string;
  /** JSON of an object. */
  readonly arguments: string;
}

/** A text taken apart. */
export interface ParsedText {
  /** What stands besides the calls. */
  readonly content: string;
  /** At least one. */
  readonly calls: readonly WrittenCall[];
}

/** One form of calls. */
export interface ToolParser {
  /** The calls in a whole text; `null` when it has none, or one that can not be read: then all of it is text. */
  parse(text: string): ParsedText | null;
  /** How much of a text that goes on is certain to be no call: that much may be shown. */
  shownLength(text: string): number;
  /** Text that ends a call; `null` where nothing does. */
  readonly end: string | null;
}

const [open, close] = ["<tool_call>", "</tool_call>"];

/** Hermes and Qwen 2.5 and 3: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, once for each call. */
const hermes: ToolParser = {
  end: close,
  parse(text) {
    const [before = "", ...written] = text.split(open);
    const texts = [before.trimEnd()];
    const calls: WrittenCall[] = [];
    for (const part of written) {
      // A model that ended its answer behind the last brace has called, too.
      const [json = "", behind = "", ...more] = part.split(close);
      const call = more.length === 0 ? callIn(json) : null;
      if (call === null) return null;
      calls.push(call);
      texts.push(behind.trim());
    }
    return calls.length === 0 ? null : { calls, content: texts.filter((one) => one !== "").join("\n") };
  },
  shownLength(text) {
    const at = text.indexOf(open);
    const certain = at === -1 ? text.slice(0, text.length - partOfAny(text, [open])) : text.slice(0, at);
    return certain.trimEnd().length;
  },
};

/** Llama 3.1 and later: the answer is the call, `{"name": …, "parameters": {…}}`, or several behind semicolons. */
const llama3Json: ToolParser = {
  end: null,
  parse(text) {
    const said = text.replace("<|python_tag|>", "").trim();
    const one = callIn(said);
    const calls = one ? [one] : said.split(/;\s*(?=\{)/).map(callIn);
    return calls.every((call) => call !== null) ? { content: "", calls } : null;
  },
  shownLength: (text) => (/^\s*(\{|<|$)/.test(text) ? 0 : text.length),
};

const parsers: Readonly<Record<ToolParserName, ToolParser>> = { hermes, llama3_json: llama3Json };

/** The parser of this name. */
export function toolParserOf(name: ToolParserName): ToolParser {
  return parsers[name];
}

/** Length of the longest end of `text` that one of `marks` begins with: more of it may come. */
export function partOfAny(text: string, marks: readonly string[]): number {
  const longest = Math.max(0, ...marks.map((mark) => mark.length - 1));
  for (let length = Math.min(longest, text.length); length > 0; length--)
    if (marks.some((mark) => mark.length > length && text.endsWith(mark.slice(0, length)))) return length;
  return 0;
}

function callIn(json: string): WrittenCall | null {
  const table = tableOf(json.trim());
  if (table === null || typeof table.name !== "string" || table.name === "") return null;
  const args = table.arguments ?? table.parameters ?? {};
  if (isTable(args)) {
    const text = jsonOf(args);
    return text === null ? null : { name: table.name, arguments: text };
  }
  return typeof args === "string" && tableOf(args) ? { name: table.name, arguments: args } : null;
}

/** `null` for what is too deep: reading JSON has no such limit. */
function jsonOf(value: unknown): string | null {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
