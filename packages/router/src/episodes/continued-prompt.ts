/** The tokens of a conversation, so that a turn goes on exactly where the turn before it ended. Pure. */
import { type ChatMessage, type ChatTool, MusterError } from "@muster/base";
import { parentOf, type Session, type Turn } from "../core/session.ts";
import { chatMessageOf } from "../sampler/chat-request.ts";
import type { SamplerTokenizer } from "../sampler/sampler-engine.ts";

type Table = Readonly<Record<string, unknown>>;

/**
 * Tokens of `messages`. What was drawn is never tokenized again where that can be helped: a model's own tokens are not always those that its text would be
 * given. Without a chat template a conversation is its texts, one behind the other. With one, the template writes all of it; where that
 * begins with what the parent's turn read and drew, written as text, only the rest is tokenized. It is given the model's own words first as the agent says
 * them, then as they were drawn: calls of tools may stand there in other words, and behind a stop text there may be more. Else the template rewrote what
 * was said, and the turn begins a trajectory of its own.
 */
export function continuedPrompt(
  session: Session,
  messages: readonly Table[],
  { tokenizer, tools }: { readonly tokenizer: SamplerTokenizer; readonly tools: readonly ChatTool[] },
): Int32Array {
  const { parent, added } = parentOf(session, messages);
  const before = parent === null ? null : idsOf(session.turns[parent] as Turn);
  const { encodeChat } = tokenizer;
  if (!encodeChat) {
    const text = (before ? added : messages).map((message) => chatMessageOf(message).content).join("");
    return joined(before ?? [], text === "" ? [] : tokenizer.encode(text));
  }
  const whole = encodeChat(messages.map(chatMessageOf), tools);
  if (!before) return whole;
  const asDrawn = (): Int32Array | null => {
    try {
      return encodeChat([...drawnMessages(session, parent, tokenizer), ...added.map(chatMessageOf)], tools);
    } catch (error) {
      // That it could not be rendered is not the template's word.
      if (error instanceof MusterError) throw error;
      // A template that wants calls of tools to be said as such: then it has written them above, in its own words.
      return null;
    }
  };
  return behind(before, whole, tokenizer) ?? behind(before, asDrawn(), tokenizer) ?? whole;
}

/** The conversation up to and with this turn's answer, each answer as the text that was drawn. */
function drawnMessages({ turns }: Session, until: number | null, tokenizer: SamplerTokenizer): readonly ChatMessage[] {
  const messages: ChatMessage[] = [];
  for (let at = until; at !== null; ) {
    const { parent, added, message, tokens } = turns[at] as Turn;
    const ids = Int32Array.from(tokens.responseIds);
    const isEnded = tokenizer.stopTokenIds.includes(ids.at(-1) ?? -1);
    const content = tokenizer.decode(isEnded ? ids.subarray(0, -1) : ids);
    const asked = added.map((one) => chatMessageOf(one as Table));
    messages.unshift(...asked, { role: `${message.role}`, content });
    at = parent;
  }
  return messages;
}

/** `before`, then the rest of `whole`; `null` where `whole` does not begin with what `before` says. */
function behind(before: readonly number[], whole: Int32Array | null, tokenizer: SamplerTokenizer): Int32Array | null {
  if (!whole || before.every((id, i) => id === whole[i])) return whole;
  const [said, written] = [tokenizer.decode(Int32Array.from(before)), tokenizer.decode(whole)];
  if (!written.startsWith(said)) return null;
  const rest = restOf(whole, said, tokenizer);
  if (!rest) return null;
  // The token that ended the parent's response stands in the template, too.
  const isTwice = rest[0] === before.at(-1) && tokenizer.stopTokenIds.includes(rest[0] ?? -1);
  return joined(before, isTwice ? rest.subarray(1) : rest);
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
