/** How a response is put to a reward outside of this process, and what it answers: JSON either way. */
import type { RewardInput } from "../engine.ts";
import { errors } from "../errors.ts";

/** Longest answer, in bytes. */
export const answerMax = 65_536;

/** Most of an answer that errors quote, in characters. */
const quotedMax = 200;

/** What is asked: the question, its row where it comes from a file, and the response. Pure. */
export function questionOf({ prompt, responseText, finish }: RewardInput): object {
  const { text, answer, row } = prompt;
  return { prompt: { text, answer, ...(row ? { row } : {}) }, responseText, finish };
}

/**
 * The reward in an answer, `{"reward": 0.5}` or `{"error": "why"}`. What is no number is the collector's affair. Pure.
 *
 * @throws MUSTER_ERR_REWARD_FAILED with the error that the answer names, MUSTER_ERR_REWARD_ANSWER for an answer of another shape
 */
export function rewardIn(answer: unknown, name: string): number {
  const fields = typeof answer === "object" && answer !== null ? (answer as Readonly<Record<string, unknown>>) : {};
  if (typeof fields.error === "string")
    throw errors.RewardFailed({ name, reason: fields.error.slice(0, 10 * quotedMax) });
  if ("reward" in fields) return fields.reward as number;
  throw errors.RewardAnswer({ name, answer: quoted(JSON.stringify(answer) ?? "nothing") });
}

/** Parses an answer. @throws MUSTER_ERR_REWARD_ANSWER */
export function parsedAnswer(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw errors.RewardAnswer({ name, answer: quoted(text) }, error);
  }
}

/** The beginning of a text, on one line. Pure. */
export function quoted(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > quotedMax ? `${line.slice(0, quotedMax)}…` : line;
}
