/** What is stored in the groups stream and is too large for one message: cut into pieces, which one more message names in their order. */
import { z } from "zod";
import { countSchema, payloadBytesMax } from "./envelope.ts";

/** Kinds of which a body may come in pieces. */
export const piecedKinds = ["groups.batch", "groups.begun"] as const;

/** A kind of which a body may come in pieces. */
export type PiecedKind = (typeof piecedKinds)[number];

/** Most bytes of one body, however many pieces it has: whoever reads it holds it in memory. */
export const piecedBytesMax = 512 * 1024 * 1024;

/** Pieces of one body, at most. */
export const piecesMax = 16_384;

/** Body of one piece: bytes of a packed body. */
export const groupsPieceBody = z.strictObject({ bytes: z.instanceof(Uint8Array) });

/** Body of the message that names the pieces: one after the other they are a packed body of `kind`. */
export const groupsJoinedBody = z.strictObject({
  kind: z.enum(piecedKinds),
  /** Sequences of the pieces in the groups stream, in order. */
  pieces: z.array(countSchema).min(1).max(piecesMax),
  /** Of all pieces together. */
  bytes: countSchema.max(piecedBytesMax),
  /** SHA-256 of all pieces together, in hexadecimal. */
  digest: z.string().length(64),
});

/** Where something lies in the groups stream. */
export interface StreamPlace {
  /** Sequence of the message that has it, or that names its pieces. */
  readonly streamSeq: number;
  /** Lowest sequence of what belongs to it; absent: `streamSeq`. */
  readonly firstSeq?: number | undefined;
}

/** The lowest sequence of the groups stream that something needs. Pure. */
export const firstSeqOf = ({ streamSeq, firstSeq }: StreamPlace): number => Math.min(streamSeq, firstSeq ?? streamSeq);

/** A place; `firstSeq` only where it is not the sequence itself. Pure. */
export function placeOf(streamSeq: number, first: number): StreamPlace {
  return first < streamSeq ? { streamSeq, firstSeq: first } : { streamSeq };
}

/** Most bytes of groups in one message: the rest is for its envelope. */
export const groupsMessageBytesMax = payloadBytesMax - 4 * 1024;
