/** The tokens of a conversation, so that a turn goes on exactly where the turn before it ended. Pure. */
import type { ChatMessage } from "@muster/base";
import { isTable } from "../core/answer-facts.ts";
import { invalid } from "../core/reply.ts";
import { parentOf, type Session, type Turn } from "../core/session.ts";
import type { SamplerTokenizer } from "../sampler/sampler-engine.ts";

type Table = Readonly<Record<string, unknown>>;

/**
 * Tokens of `messages`. What was drawn is never tokenized again where that can be helped: a model's own tokens are not always those that its text would be
 * given. Without a chat template a conversation is its texts, one behind the other. With one, the template writes all of it; where that
 * begins with what the parent's turn read and drew, written as text, only the rest is tokenized. Else the template rewrote what was said,
 * and the turn begins a trajectory of its own.
 */
export function continuedPrompt(session: Session, messages: readonly Table[], tokenizer: SamplerTokenizer): Int32Array {
  const { parent, added } = parentOf(session, messages);
  const before = parent === null ? null : idsOf(session.turns[parent] as Turn);
  if (!tokenizer.encodeChat) {
    const text = (before ? added : messages).map((message) => plainMessage(message).content).join("");
    return joined(before ?? [], text === "" ? [] : tokenizer.encode(text));
  }
  const whole = tokenizer.encodeChat(messages.map(plainMessage));
  if (!before || before.every((id, i) => id === whole[i])) return whole;
  const [said, written] = [tokenizer.decode(Int32Array.from(before)), tokenizer.decode(whole)];
  if (!written.startsWith(said)) return whole;
  const rest = restOf(whole, said, tokenizer);
  if (!rest) return whole;
  // The token that ended the parent's response stands in the template, too.
  const isTwice = rest[0] === before.at(-1) && tokenizer.stopTokenIds.includes(rest[0] ?? -1);
  return joined(before, isTwice ? rest.subarray(1) : rest);
}

/** A message whose content is one text; clients also write it in parts. @throws Refused with 400 for anything but text */
export function plainMessage({ role, content }: Table): ChatMessage {
  const parts = Array.isArray(content) ? content : [{ type: "text", text: content }];
  const texts = parts.map((part: unknown) => (isTable(part) && part.type === "text" ? part.text : undefined));
  if (typeof role === "string" && texts.every((text) => typeof text === "string"))
    return { role, content: texts.join("") };
  throw invalid("messages must have a role and a content that is text, or parts of the type text");
}

function idsOf({ tokens }: Turn): readonly number[] {
  return [...tokens.promptIds, ...tokens.responseIds];
}

function joined(before: readonly number[], rest: ArrayLike<number>): Int32Array {
  return Int32Array.from([...before, ...Array.from(rest)]);
}

/** The tokens of `whole` behind those that write `said`; `null` where a token begins before its end and ends behind it. */
function restOf(whole: Int32Array, said: string, tokenizer: SamplerTokenizer): Int32Array | null {
  let [low, high] = [0, whole.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tokenizer.decode(whole.subarray(0, middle)).length < said.length) low = middle + 1;
    else high = middle;
  }
  return tokenizer.decode(whole.subarray(0, low)) === said ? whole.subarray(low) : null;
}
