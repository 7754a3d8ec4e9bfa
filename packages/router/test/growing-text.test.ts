/** The text of a response at each look, without decoding it anew. */
import { expect, test } from "vitest";
import { GrowingText } from "../src/sampler/growing-text.ts";

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** Counts the tokens that a tokenizer is given. */
function counted(decode: (ids: Int32Array) => string) {
  let tokens = 0;
  const counting = (ids: Int32Array): string => {
    tokens += ids.length;
    return decode(ids);
  };
  return { decode: counting, tokens: () => tokens };
}

const bytes = (ids: Int32Array): string => utf8.decode(Uint8Array.from(ids));
/** As tokenizers that begin words with a blank, which the first word does not show. */
const words = (ids: Int32Array): string =>
  Array.from(ids, (id) => ` w${id}`)
    .join("")
    .trimStart();
/** Writes a mark at the end, so that no text begins with an earlier one. */
const marked = (ids: Int32Array): string => `${bytes(ids)}$`;

test.each([
  ["bytes, of which several make a character", bytes],
  ["words with a blank that the first one lacks", words],
  ["a text that is another one when more follows", marked],
] as const)("at each look the text is that of the whole: %s", (_, decode) => {
  const ids = Int32Array.from(Buffer.from("Zürich 東京 🙂 ".repeat(40)));
  for (const step of [1, 3, 7, 40, 200]) {
    const growing = new GrowingText({ decode });
    for (let length = 1; length <= ids.length; length += step) {
      const soFar = ids.subarray(0, length);
      expect(growing.textOf(soFar)).toBe(decode(soFar));
      expect(growing.textOf(soFar)).toBe(decode(soFar));
    }
  }
});

test("a response that is ten times as long costs ten times as much, and not a hundred times", () => {
  const costOf = (length: number): number => {
    const { decode, tokens } = counted(words);
    const growing = new GrowingText({ decode });
    const ids = new Int32Array(length).fill(7);
    for (let drawn = 4; drawn <= length; drawn += 4) growing.textOf(ids.subarray(0, drawn));
    return tokens();
  };
  expect(costOf(20_000) / costOf(2_000)).toBeLessThan(11);
  expect(costOf(20_000) / 20_000).toBeLessThan(32);
});
