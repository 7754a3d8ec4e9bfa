/** Addition of two-digit numbers, least digit of the sum first: `37+85=` → `221$`. A tenth of all pairs is held out of training. */
import type { Prompt, Random } from "@muster/base";
import { evalStream, trainStream } from "../prompt-streams.ts";
import type { BuiltInTask } from "../task.ts";
import { alphabetOf } from "./alphabet.ts";

const digits = 2;
const bound = 10 ** digits;
const vocabulary = "$0123456789+=";
const alphabet = alphabetOf(vocabulary, "addition");

function isHeldOut(a: number, b: number): boolean {
  return (a * 7919 + b * 104729) % 97 < 10;
}

function drawPrompt(random: Random, heldOut: boolean): Prompt {
  for (;;) {
    const a = random.below(bound);
    const b = random.below(bound);
    if (isHeldOut(a, b) !== heldOut) continue;
    const text = `${String(a).padStart(digits, "0")}+${String(b).padStart(digits, "0")}=`;
    const sum = String(a + b).padStart(digits + 1, "0");
    return { ids: alphabet.encode(text), text, answer: [...sum].reverse().join("") };
  }
}

/** The addition task. */
export const addition: BuiltInTask = {
  name: "addition",
  vocabulary,
  close: async () => {},
  maxTokens: 3 * digits + 6,
  trainPrompt: (key) => drawPrompt(trainStream(key), false),
  evalPrompt: (index) => drawPrompt(evalStream(index), true),
  supervised: (random) => {
    const prompt = drawPrompt(random, false);
    return { promptIds: prompt.ids, answerIds: alphabet.encode(`${prompt.answer}$`) };
  },
  ...alphabet,
};
