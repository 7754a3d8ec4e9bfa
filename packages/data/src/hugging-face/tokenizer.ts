/** Tokenizers of the Hugging Face kind: byte pairs, word pieces, unigrams; and the chat template beside them. */

import { Tokenizer as HuggingFaceTokenizer } from "@huggingface/tokenizers";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import type { Tokenizer } from "../task.ts";
import { type ChatTemplate, chatTemplateOf } from "./chat-template.ts";
import { readTokenizerFiles, type TokenizerFiles } from "./tokenizer-files.ts";

/** A tokenizer, and how it writes conversations. */
export interface ChatTokenizer extends Omit<Tokenizer, "toolParser">, ChatTemplate {
  /** Text whose special tokens are not said: they are added as the tokenizer does it. */
  encodePlain(text: string): Int32Array;
}

/** What is used of the library, whose own declarations can not be resolved. */
interface Wrapped {
  encode(
    text: string,
    options: { readonly add_special_tokens: boolean },
  ): { readonly ids: readonly (number | undefined)[]; readonly tokens: readonly string[] };
  decode(
    ids: readonly number[],
    options: { readonly skip_special_tokens: boolean; readonly clean_up_tokenization_spaces: boolean },
  ): string;
  get_vocab(withAdded: boolean): ReadonlyMap<string, number>;
  token_to_id(token: string): number | undefined;
}

/** Opens the tokenizer of a folder. @throws MUSTER_ERR_TOKENIZER_INVALID */
export async function openTokenizer(folder: string): Promise<ChatTokenizer> {
  const files = await readTokenizerFiles(folder);
  const invalid = (reason: string, cause?: unknown): Error => errors.TokenizerInvalid({ path: folder, reason }, cause);
  let tokenizer: Wrapped;
  try {
    tokenizer = new HuggingFaceTokenizer(files.model, files.config) as Wrapped;
  } catch (error) {
    throw invalid(messageOf(error), error);
  }
  const ids: readonly number[] = [...tokenizer.get_vocab(true).values()];
  const vocab = ids.reduce((most, id) => Math.max(most, id), -1) + 1;
  if (vocab < 2) throw invalid("its vocabulary is empty");
  const encode = (text: string, isPlain: boolean): Int32Array => {
    const { ids, tokens } = tokenizer.encode(text, { add_special_tokens: isPlain });
    const unknown = ids.findIndex((id) => !Number.isInteger(id));
    if (unknown >= 0) throw errors.TaskTextInvalid({ character: tokens[unknown] ?? "", task: folder });
    return Int32Array.from(ids as readonly number[]);
  };
  return {
    vocab,
    tokenizerDigest: files.digest,
    stopTokenIds: stopTokensOf(files, tokenizer, { vocab, invalid }),
    encode: (text) => encode(text, false),
    encodePlain: (text) => encode(text, true),
    decode: (tokens) =>
      tokenizer.decode(Array.from(tokens), { skip_special_tokens: true, clean_up_tokenization_spaces: false }),
    ...chatTemplateOf(files, {
      ...{ path: folder, invalid },
      ...{ bos: textOf(files.config.bos_token), eos: textOf(files.config.eos_token) },
    }),
  };
}

/** Those of `generation_config.json`, or the end token of the tokenizer. */
function stopTokensOf(
  { stopTokenIds, config }: TokenizerFiles,
  tokenizer: Wrapped,
  { vocab, invalid }: { readonly vocab: number; readonly invalid: (reason: string) => Error },
): readonly number[] {
  const name = textOf(config.eos_token);
  const own = name === null ? undefined : tokenizer.token_to_id(name);
  const stop = stopTokenIds.length > 0 ? stopTokenIds : own === undefined ? [] : [own];
  const beyond = stop.find((id) => id >= vocab);
  if (beyond !== undefined) throw invalid(`eos_token_id ${beyond} is not in its vocabulary of ${vocab}`);
  if (stop.length === 0)
    throw invalid("it names no end of text: set eos_token in tokenizer_config.json to one of its tokens");
  return stop;
}

function textOf(token: TokenizerFiles["config"]["eos_token"]): string | null {
  return typeof token === "string" ? token : (token?.content ?? null);
}
