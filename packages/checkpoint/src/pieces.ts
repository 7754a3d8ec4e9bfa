/**
 * Files in pieces of one size. The digest of a file is a tree of two levels, SHA-256 of the SHA-256 of its pieces, so that pieces may
 * come in any order and a piece can be checked by itself. Nothing here needs more memory than a few pieces.
 */
import { createHash } from "node:crypto";
import type { ByteSource } from "./content.ts";

/** Size of every piece but the last one of a file. Part of format 2: another size gives other digests. */
export const pieceBytes = 4 * 1024 * 1024;

/** Pieces that are worked on at once: as many as Node has threads for it, unless it is told otherwise. */
const lanesMax = 4;

/** Where a piece lies in its file. */
export interface Piece {
  readonly index: number;
  readonly from: number;
  readonly bytes: number;
}

/** The pieces of a file of this size. */
export function piecesOf(fileBytes: number): readonly Piece[] {
  return Array.from({ length: Math.ceil(fileBytes / pieceBytes) }, (_, index) => {
    const from = index * pieceBytes;
    return { index, from, bytes: Math.min(pieceBytes, fileBytes - from) };
  });
}

/**
 * SHA-256 of a piece, on this thread: 2 to 3 ms. WebCrypto has a thread for it, but copies the piece on this one first, into memory of its own, which
 * takes as long as the hash where the processor has instructions for SHA-256.
 */
function pieceDigest(piece: Uint8Array): Uint8Array {
  return createHash("sha256").update(piece).digest();
}

/** Takes the pieces of a file, and gives its digest. */
interface FileDigest {
  /** Pieces that may be under way at once. */
  readonly lanes: number;
  add(piece: Piece, content: Uint8Array): Promise<void>;
  /** Of all pieces, in hex. */
  hex(): string;
}

/** SHA-256 of the SHA-256 of the pieces, which come in any order. */
export function treeDigest(): FileDigest {
  const leaves: Uint8Array[] = [];
  return {
    lanes: lanesMax,
    async add({ index }, content) {
      leaves[index] = pieceDigest(content);
    },
    hex() {
      const hash = createHash("sha256");
      for (const leaf of leaves) hash.update(leaf);
      return hash.digest("hex");
    },
  };
}

/** SHA-256 through the whole file, piece after piece, as format 1 has it. */
export function chainDigest(): FileDigest {
  const hash = createHash("sha256");
  return {
    lanes: 1,
    add: async (_, content) => void hash.update(content),
    hex: () => hash.digest("hex"),
  };
}

/** Memory for one piece that only one lane uses; there are two of them, made when they are asked for. */
export type LaneBuffer = (which?: 0 | 1) => Uint8Array;

/** Memory of lanes, by lane: who runs pieces again and again gives the same, since memory that is new costs as much as a copy into it. */
export type LaneMemory = Uint8Array[][];

/**
 * Runs `work` for each piece, several at once, each in a lane of its own.
 * After a failure nothing new begins, and what has begun is waited for.
 */
export async function inLanes(
  pieces: readonly Piece[],
  work: (piece: Piece, buffer: LaneBuffer) => Promise<void>,
  { lanes = lanesMax, memory = [] }: { readonly lanes?: number; readonly memory?: LaneMemory } = {},
): Promise<void> {
  let next = 0;
  let hasFailed = false;
  const run = async (_: unknown, lane: number): Promise<void> => {
    memory[lane] ??= [];
    const own = memory[lane];
    for (let piece = pieces[next++]; piece && !hasFailed; piece = pieces[next++]) {
      const { bytes } = piece;
      const buffer: LaneBuffer = (which = 0) => {
        const known = own[which];
        const large = known !== undefined && known.length >= bytes ? known : new Uint8Array(bytes);
        own[which] = large;
        return large.subarray(0, bytes);
      };
      try {
        await work(piece, buffer);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: Math.min(lanes, pieces.length) }, run));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

/**
 * The bytes of a piece of a file whose parts follow each other: a view of the part that holds all of it, else what is gathered in `buffer`.
 *
 * @throws What a source throws.
 */
export async function pieceFrom(
  parts: readonly (Uint8Array | ByteSource)[],
  { from, bytes }: Piece,
  buffer: LaneBuffer,
): Promise<Uint8Array> {
  let at = 0;
  const copies: Promise<void>[] = [];
  for (const part of parts) {
    const [start, end] = [Math.max(from, at), Math.min(from + bytes, at + part.length)];
    if (start < end) {
      const isView = part instanceof Uint8Array;
      if (isView && end - start === bytes) return part.subarray(start - at, end - at);
      const into = buffer().subarray(start - from, end - from);
      if (isView) into.set(part.subarray(start - at, end - at));
      else copies.push(part.copyTo(into, start - at));
    }
    at += part.length;
  }
  await Promise.all(copies);
  return buffer();
}
