// Prompts of the agent beside it: `a=` asks for the value of the key a, which only the tool knows. One character is one token, and `$` ends a response.

/** @type {import("./muster.d.ts").TaskModule} */
export const task = {
  vocabulary: "$?=ab0123",
  maxPromptTokens: 8,
  trainPrompt: ({ random }) => ({ prompt: `${"ab"[random.below(2)]}=`, answer: random.below(4) }),
  // What is asked where the agent posts no reward (`rollout.agent.reward = "task"`): whether the last answer is right.
  reward: ({ prompt, messages }) => (messages?.at(-1)?.content === prompt.answer ? 1 : 0),
};
