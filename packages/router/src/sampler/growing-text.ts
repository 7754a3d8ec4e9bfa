/** The text of a response while it is drawn: at each look only its last tokens are decoded, and not the whole of it again. */
import type { SamplerTokenizer } from "./sampler-engine.ts";

/** Tokens in front of new ones that are decoded with them: a token's text may depend on those before it. */
const contextTokens = 32;
/** What a decoder writes for a character of which some bytes are still to come. */
const incomplete = "\ufffd";

/** One response. */
export class GrowingText {
  readonly #tokenizer: Pick<SamplerTokenizer, "decode">;
  /** Tokens whose text is settled: the first `#from` of them are not decoded any more, the others as context. */
  #from = 0;
  #settled = 0;
  /** Text of the settled tokens, and that of the context alone. */
  #text = "";
  #context = "";

  constructor(tokenizer: Pick<SamplerTokenizer, "decode">) {
    this.#tokenizer = tokenizer;
  }

  /** The text of these tokens, the same as the tokenizer's. They begin with the tokens of the call before. */
  textOf(ids: Int32Array): string {
    if (ids.length < this.#settled) return this.#tokenizer.decode(ids);
    const window = this.#tokenizer.decode(ids.subarray(this.#from));
    // A tokenizer that writes the context otherwise when more follows is asked for the whole.
    if (!window.startsWith(this.#context)) return this.#tokenizer.decode(ids);
    const text = this.#text + window.slice(this.#context.length);
    if (ids.length - this.#settled >= contextTokens && !window.endsWith(incomplete)) {
      this.#from = this.#settled;
      this.#settled = ids.length;
      this.#text = text;
      this.#context = this.#tokenizer.decode(ids.subarray(this.#from));
    }
    return text;
  }
}

/** A text that goes on, up to a character that is not whole yet: what is said can not be taken back. */
export function withoutIncomplete(text: string): string {
  let { length } = text;
  while (text[length - 1] === incomplete) length -= 1;
  return text.slice(0, length);
}
