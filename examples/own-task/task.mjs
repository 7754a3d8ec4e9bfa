// A task in one file: which of two digits is the larger one? Nothing is read or downloaded. One character is one token, and `$` ends a response.

// A fifth of all pairs is held out of training.
const isHeldOut = (a, b) => (a + 3 * b) % 5 === 0;

function draw(random, heldOut) {
  for (;;) {
    const [a, b] = [random.below(10), random.below(10)];
    if (isHeldOut(a, b) === heldOut) return { prompt: `${a},${b}=`, answer: Math.max(a, b) };
  }
}

/** @type {import("./muster.d.ts").TaskModule} */
export const task = {
  vocabulary: "$0123456789,=",
  maxPromptTokens: 4,
  trainPrompt: ({ random }) => draw(random, false),
  evalPrompt: ({ random }) => draw(random, true),
  // Half a point for the right digit first, the other half for ending there.
  reward({ prompt, responseText, finish }) {
    if (!responseText.startsWith(prompt.answer)) return 0;
    return finish === "stop" && responseText.length === 1 ? 1 : 0.5;
  },
};
