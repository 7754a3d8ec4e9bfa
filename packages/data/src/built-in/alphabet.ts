/** One token per character. Token 0 is `$`, the end of a response. */
import { createHash } from "node:crypto";
import { errors } from "../errors.ts";
import type { Tokenizer } from "../task.ts";

/** The tokenizer of a vocabulary string. `task` names it in errors. */
export function alphabetOf(vocabulary: string, task: string): Tokenizer {
  const characters = [...vocabulary];
  const ids = new Map(characters.map((character, id) => [character, id]));
  return {
    vocab: characters.length,
    tokenizerDigest: `characters-${createHash("sha256").update(vocabulary).digest("hex").slice(0, 32)}`,
    stopTokenIds: [0],
    encode: (text) =>
      Int32Array.from(text, (character) => {
        const id = ids.get(character);
        if (id === undefined) throw errors.TaskTextInvalid({ character, task });
        return id;
      }),
    decode: (tokens) => Array.from(tokens, (id) => characters[id] ?? "�").join(""),
  };
}
