/** Calls of tools in what models write, whole and while it is drawn. */
import type { Generated } from "@muster/base";
import { expect, test } from "vitest";
import { partOfAny, toolParserOf } from "../src/core/tool-calls.ts";
import { isCut, saidOf } from "../src/sampler/said.ts";
import type { GenerationRequest } from "../src/sampler/sampler-request.ts";

const add = '{"name": "add", "arguments": {"a": 1}}';
const called = { name: "add", arguments: '{"a":1}' };

test.each([
  ["hermes", `<tool_call>\n${add}\n</tool_call>`, { content: "", calls: [called] }],
  [
    "hermes",
    `so\n\n<tool_call>${add}</tool_call>\n<tool_call>${add}</tool_call>`,
    { content: "so", calls: [called, called] },
  ],
  ["hermes", `<tool_call>${add}`, { content: "", calls: [called] }],
  ["hermes", `a <tool_call>${add}</tool_call> b`, { content: "a\nb", calls: [called] }],
  ["hermes", '<tool_call>{"name": "now"}</tool_call>', { content: "", calls: [{ name: "now", arguments: "{}" }] }],
  ["hermes", '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', { content: "", calls: [{}] }],
  ["hermes", "no call at all", null],
  ["hermes", `<tool_call>${add}</tool_call><tool_call>{"name":`, null],
  ["hermes", '<tool_call>{"name": 3, "arguments": {}}</tool_call>', null],
  ["hermes", '<tool_call>{"name": "add", "arguments": [1]}</tool_call>', null],
  ["hermes", `<tool_call>${add}</tool_call></tool_call>`, null],
  ["llama3_json", '{"name": "add", "parameters": {"a": 1}}', { content: "", calls: [called] }],
  ["llama3_json", `<|python_tag|>${add}; ${add}`, { content: "", calls: [called, called] }],
  ["llama3_json", `${add} as asked`, null],
  ["llama3_json", '{"answer": 3}', null],
] as const)("%s reads %j", (form, text, parsed) => {
  const found = toolParserOf(form).parse(text);
  if (parsed === null) expect(found).toBeNull();
  else expect(found).toMatchObject(parsed);
});

test("a mark that has begun is held back until it is known what it is", () => {
  expect(partOfAny("a <tool", ["<tool_call>"])).toBe(5);
  expect(partOfAny("a <tool_call>", ["<tool_call>"])).toBe(0);
  expect(partOfAny("abcab", ["abx", "bcabd"])).toBe(4);
  expect(partOfAny("", ["x"])).toBe(0);
});

const tokenizer = {
  ...{ stopTokenIds: [0], encode: (text: string) => Int32Array.from(text, (letter) => letter.charCodeAt(0)) },
  decode: (ids: ArrayLike<number>) => String.fromCharCode(...Array.from(ids)).replaceAll("\0", ""),
};
const wanted: GenerationRequest = {
  ...{
    promptIds: Int32Array.of(1),
    n: 1,
    seed: 7,
    isStream: true,
    withLogprobs: false,
    withIds: false,
    withUsage: false,
  },
  sampling: { temperature: 1, maxNewTokens: 500, stopTokenIds: [0] },
  ...{ stops: ["STOP"], toolParser: "hermes" as const, isOneCall: false },
};

function drawnOf(text: string, finish: Generated["finish"]): Generated {
  const responseIds = tokenizer.encode(text);
  const logprobs = new Float32Array(responseIds.length);
  return { responseIds, logprobs, finish, versionAtStart: 1, versionAtEnd: 1 };
}

test.each([
  `I add  <tool_call>${add}</tool_call>`,
  `a < b <tool_ and <tool_call>{"name": </tool_call> so`,
  "text and ST and STOP and more",
  "white space  \n ",
])("of %j a stream shows nothing that it has to take back, and all that the whole answer has", (text) => {
  const whole = saidOf({ wanted, tokenizer }, drawnOf(`${text}\0`, "stop"), true);
  let shown = "";
  for (let length = 1; length <= text.length; length++) {
    const soFar = drawnOf(text.slice(0, length), "abort");
    const { text: now } = saidOf({ wanted, tokenizer }, soFar, false);
    expect(now.startsWith(shown)).toBe(true);
    shown = now;
    if (isCut({ wanted, tokenizer }, soFar, false)) break;
  }
  expect(whole.text.startsWith(shown)).toBe(true);
  expect(saidOf({ wanted, tokenizer }, drawnOf(`${text}\0`, "stop"), true)).toEqual(whole);
});

test.each(["hermes", "llama3_json"] as const)(
  "of %s, arguments too deep to be written as JSON are text, and no failure of the engine",
  (form) => {
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    const json = `{"name": "add", "parameters": {"a": ${deep}}}`;
    expect(toolParserOf(form).parse(form === "hermes" ? `<tool_call>${json}</tool_call>` : json)).toBeNull();
  },
);
