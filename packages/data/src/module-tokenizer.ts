/** The tokenizer of a module's task: its characters, or the folder that it names. */
import { dirname, resolve } from "node:path";
import type { TaskModule } from "@muster/base";
import { alphabetOf } from "./built-in/alphabet.ts";
import { type ChatTokenizer, openTokenizer } from "./hugging-face/tokenizer.ts";

/** Opens it. @throws MUSTER_ERR_TOKENIZER_INVALID */
export async function tokenizerOfModule(module: TaskModule, path: string): Promise<ChatTokenizer> {
  if (module.tokenizer !== undefined) return await openTokenizer(resolve(dirname(path), module.tokenizer));
  const characters = alphabetOf(module.vocabulary ?? "", path);
  return {
    ...characters,
    encodePlain: characters.encode,
    // As tokenizers of files do: the end of a response is no part of its text.
    decode: (ids) => characters.decode(ids.filter((id) => id !== 0)),
    renderChat: null,
    toolParser: null,
  };
}
