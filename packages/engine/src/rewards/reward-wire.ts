/** How a response is put to a reward outside of this process, and what it answers: JSON either way. */
import type { RewardAnswer } from "@muster/base";
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
 * The reward in an answer, `{"reward": 0.5}`, with `components` and `metadata` where it has them, or `{"error": "why"}`. Whether they are what they must
 * be is the collector's affair. Other keys are left aside: services may say more. Pure.
 *
 * @throws MUSTER_ERR_REWARD_FAILED with the error that the answer names, MUSTER_ERR_REWARD_ANSWER for an answer of another shape
 */
export function rewardIn(answer: unknown, name: string): RewardAnswer {
  const fields = typeof answer === "object" && answer !== null ? (answer as Readonly<Record<string, unknown>>) : {};
  if (typeof fields.error === "string")
    throw errors.RewardFailed({ name, reason: fields.error.slice(0, 10 * quotedMax) });
  if ("reward" in fields) {
    const { reward, components, metadata } = fields;
    // Who writes null means nothing.
    const more = Object.entries({ components, metadata }).filter(([, value]) => value !== undefined && value !== null);
    return (more.length === 0 ? reward : { reward, ...Object.fromEntries(more) }) as RewardAnswer;
  }
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
