/** Hashing of pieces together, where somebody is given who does several in less time than one by one. */
import { hashPiece, threadBytesMin } from "./hash-piece.ts";

/** Gives the SHA-256 of each piece, in their order, while none of them changes; on other threads than the caller's. */
export type HashPieces = (pieces: readonly Uint8Array[]) => Promise<readonly Uint8Array[]>;

/** Gives the SHA-256 of what `content` makes, which must not change until then; what `content` throws it throws. */
export type HashContent = (content: () => Promise<Uint8Array>) => Promise<Uint8Array>;

/** Pieces of a call. */
const callPieces = 3;

/** Calls at once: more take the cores of those who read and write. */
const callsMax = 2;

interface Waiting {
  readonly piece: Uint8Array;
  resolve(digest: Uint8Array): void;
  reject(error: unknown): void;
}

/** Hashes pieces one by one, large ones by the thread for them. */
export const oneByOne: HashContent = async (content) => await hashPiece(await content());

/**
 * Hashes pieces by `hashPieces`, as many in a call as it is worthwhile, or those that there are when no other is being made: whoever waits for a piece that
 * is hashed makes no other. Without `hashPieces` one by one.
 */
export function gathered(hashPieces: HashPieces | undefined): HashContent {
  if (!hashPieces) return oneByOne;
  const waiting: Waiting[] = [];
  let [calls, making] = [0, 0];
  const call = async (those: readonly Waiting[]): Promise<void> => {
    try {
      const digests = await hashPieces(those.map(({ piece }) => piece));
      if (digests.length !== those.length) throw new Error(`${those.length} pieces have ${digests.length} digests`);
      for (const [i, digest] of digests.entries()) those[i]?.resolve(digest);
    } catch (error) {
      for (const { reject } of those) reject(error);
    }
    calls--;
    // Those that were answered make their next pieces first.
    setImmediate(begin);
  };
  const begin = (): void => {
    const isWorthwhile = waiting.length >= callPieces || (making === 0 && calls === 0 && waiting.length > 0);
    if (!isWorthwhile || calls === callsMax) return;
    calls++;
    void call(waiting.splice(0, callPieces));
  };
  const digestOf = (piece: Uint8Array): Uint8Array | Promise<Uint8Array> => {
    // Hashed before a thread would have heard of it.
    if (piece.length < threadBytesMin) return hashPiece(piece);
    return new Promise((resolve, reject) => void waiting.push({ piece, resolve, reject }));
  };
  return async (content) => {
    let digest: ReturnType<typeof digestOf>;
    making++;
    try {
      digest = digestOf(await content());
    } finally {
      making--;
      begin();
    }
    return await digest;
  };
}
