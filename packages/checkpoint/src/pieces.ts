/**
 * Files in pieces of one size. The digest of a file is a tree of two levels, SHA-256 of the SHA-256 of its pieces, so that pieces may
 * come in any order and a piece can be checked by itself. Nothing here needs more memory than a few pieces.
 */
import { createHash } from "node:crypto";
import type { ByteSource } from "./content.ts";
import { type HashContent, oneByOne } from "./hash/gathered.ts";

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

/** Takes the pieces of a file, and gives its digest. */
export interface FileDigest {
  /** Pieces that may be under way at once. */
  readonly lanes: number;
  /** Takes a piece as `content` makes it; it must not change until then. What `content` throws it throws. */
  add(piece: Piece, content: () => Promise<Uint8Array>): Promise<void>;
  /** Of all pieces, in hex. */
  hex(): string;
}

/** SHA-256 of the SHA-256 of the pieces, which come in any order. */
export function treeDigest(hash: HashContent = oneByOne): FileDigest {
  const leaves: Uint8Array[] = [];
  return {
    lanes: lanesMax,
    async add({ index }, content) {
      leaves[index] = await hash(content);
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
    add: async (_, content) => void hash.update(await content()),
    hex: () => hash.digest("hex"),
  };
}

/** Memory of a lane, for one piece at a time, by number: it has the same under a number again. */
export type LaneBuffer = (nth?: number) => Uint8Array;

/**
 * Memory for pieces, by number. Who works on pieces again and again takes the same, since memory that is new costs as much as a copy into it. It is shared
 * memory, so that another thread can hash what lies there.
 */
export class PieceMemory {
  readonly #slots: Uint8Array[] = [];

  /** Of `bytes` bytes; whatever had this number before is overwritten. */
  at(slot: number, bytes: number): Uint8Array {
    const known = this.#slots[slot];
    const large = known !== undefined && known.length >= bytes ? known : new Uint8Array(new SharedArrayBuffer(bytes));
    this.#slots[slot] = large;
    return large.subarray(0, bytes);
  }
}

/**
 * Runs `work` for each piece, several at once, each in a lane of its own.
 * After a failure nothing new begins, and what has begun is waited for.
 */
export async function inLanes<P extends Piece>(
  pieces: readonly P[],
  work: (piece: P, buffer: LaneBuffer) => Promise<void>,
  { lanes = lanesMax, memory = new PieceMemory() }: { readonly lanes?: number; readonly memory?: PieceMemory } = {},
): Promise<void> {
  let next = 0;
  let hasFailed = false;
  const run = async (_: unknown, lane: number): Promise<void> => {
    for (let piece = pieces[next++]; piece && !hasFailed; piece = pieces[next++]) {
      const { bytes } = piece;
      try {
        await work(piece, (nth = 0) => memory.at(nth * lanes + lane, bytes));
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
 * A piece of a file whose parts follow each other: where it lies, or a copy.
 *
 * @param memory - For a copy, where the piece is not all in one part that is a buffer.
 * @throws What a source throws.
 */
export async function pieceOf(
  parts: readonly (Uint8Array | ByteSource)[],
  { from, bytes }: Piece,
  memory: () => Uint8Array,
): Promise<Uint8Array> {
  let at = 0;
  const copies: Promise<void>[] = [];
  let into: Uint8Array | null = null;
  for (const part of parts) {
    const [start, end] = [Math.max(from, at), Math.min(from + bytes, at + part.length)];
    if (part instanceof Uint8Array && end - start === bytes) return part.subarray(start - at, end - at);
    if (start < end) {
      into ??= memory();
      const target = into.subarray(start - from, end - from);
      if (part instanceof Uint8Array) target.set(part.subarray(start - at, end - at));
      else copies.push(part.copyTo(target, start - at));
    }
    at += part.length;
  }
  await Promise.all(copies);
  return into ?? new Uint8Array();
}
