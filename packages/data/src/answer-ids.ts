/** The right answer of a prompt as a response: what supervised fine-tuning trains on. */
import type { Prompt } from "@muster/base";
import type { Tokenizer } from "./task.ts";

/**
 * Tokens of the answer, and the usual token that ends a response. Pure.
 *
 * @param maxNewTokens - Longest response in tokens, with its end.
 * @throws with what is wrong with the answer
 */
export function answerIdsOf(
  { answer }: Pick<Prompt, "answer">,
  { encode, stopTokenIds }: Pick<Tokenizer, "encode" | "stopTokenIds">,
  maxNewTokens: number,
): Int32Array {
  const ids = encode(answer);
  if (ids.length === 0)
    throw new Error("its answer is empty, and supervised fine-tuning learns from it: give it one, or leave it out");
  const end = stopTokenIds.slice(0, 1);
  const length = ids.length + end.length;
  if (length <= maxNewTokens) return Int32Array.from([...ids, ...end]);
  throw new Error(
    `its answer has ${length} tokens with its end, more than sampling.max_new_tokens = ${maxNewTokens}; raise that, or leave it out`,
  );
}
