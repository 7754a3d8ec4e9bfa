/** The tokens of a turn behind another one: what a template says of them, and what is not its word. */
import { defineErrors } from "@muster/base";
import { expect, test } from "vitest";
import { emptySession, type Session, type Turn } from "../src/core/session.ts";
import { continuedPrompt } from "../src/episodes/continued-prompt.ts";
import type { SamplerTokenizer } from "../src/sampler/sampler-engine.ts";

const { Silent } = defineErrors("TEST_ERR", { Silent: { message: "no thread answers" } });
const codesOf = (text: string) => Int32Array.from(text, (one) => one.charCodeAt(0));
const asked = { role: "user", content: "ab" };
const said = { role: "assistant", content: "c" };
const turn = {
  ...{ key: "1", parent: null, added: [asked], answer: {}, message: said },
  tokens: { promptIds: [...codesOf("ab")], responseIds: [...codesOf("C")] },
} as unknown as Turn;
const session: Session = { ...emptySession, turns: [turn] };

/** Writes the first conversation, and fails over the second one, which is the same with the words that were drawn. */
function failing(error: Error): SamplerTokenizer {
  let asks = 0;
  return {
    stopTokenIds: [],
    encode: codesOf,
    decode: (ids: Int32Array) => String.fromCharCode(...ids),
    encodeChat: () => {
      asks += 1;
      if (asks > 1) throw error;
      return codesOf("abc!");
    },
  } as unknown as SamplerTokenizer;
}

const prompt = (error: Error) =>
  continuedPrompt(session, [asked, said, { role: "user", content: "!" }], { tokenizer: failing(error), tools: [] });

test("a template that refuses a model's own words as they were drawn has written them in its own", () => {
  expect([...prompt(new Error("calls must be said as such"))]).toEqual([...codesOf("abc!")]);
});

test("that a template could not be rendered is no answer of it: the turn fails, or it would go on from other tokens", () => {
  expect(() => prompt(Silent())).toThrow("no thread answers");
});
