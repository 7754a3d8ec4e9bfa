// Prompts of the agent beside it: a number from 0 to 3 that only the agent knows. One character is one token, and `$` ends a response.

/** @type {import("./muster.d.ts").TaskModule} */
export const task = {
  vocabulary: "$0123<>?",
  maxPromptTokens: 12,
  trainPrompt: ({ random }) => ({ prompt: "?", answer: random.below(4) }),
  // What is asked where the agent posts no reward (`rollout.agent.reward = "task"`): whether the last guess is right.
  reward: ({ prompt, messages }) => (messages?.at(-1)?.content === prompt.answer ? 1 : 0),
};
