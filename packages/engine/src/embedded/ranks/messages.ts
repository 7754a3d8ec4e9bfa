/** What a replica tells its ranks, and what they answer. */
import type { RankOptions, SlotCopies } from "./rank.ts";

/** Given to the thread at its start. */
export type RankStart = RankOptions;

/** Told to a rank; each is answered once, in order. */
export type RankOrder =
  | { readonly kind: "load"; readonly section: Uint8Array<ArrayBuffer> }
  | { readonly kind: "decode"; readonly rows: number; readonly copies: SlotCopies };

/** The answer when it is done. A failure ends the thread instead. */
export const rankDone = "done";
