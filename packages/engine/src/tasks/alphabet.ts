/** One token per character. Token 0 is `$`, the end of a response. */
import { errors } from "../errors.ts";

/** Turns text into token ids and back. */
export interface Alphabet {
  encode(text: string): Int32Array;
  decode(ids: Int32Array): string;
}

/** The alphabet of a vocabulary string. `task` names it in errors. */
export function alphabetOf(vocabulary: string, task: string): Alphabet {
  const ids = new Map([...vocabulary].map((character, id) => [character, id]));
  return {
    encode: (text) =>
      Int32Array.from(text, (character) => {
        const id = ids.get(character);
        if (id === undefined) throw errors.TaskTextInvalid({ character, task });
        return id;
      }),
    decode: (tokens) => Array.from(tokens, (id) => vocabulary[id] ?? "�").join(""),
  };
}
