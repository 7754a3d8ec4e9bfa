/** The digest that the simulated data plane gives to production. It shares no code with the one that checkers trust (`check/src/digest.ts`). */

/** Digest of the simulated data plane: FNV-1a over bytes, twice with different bases. */
export function planeDigest(bytes: Uint8Array): string {
  return `sim:${fnv(bytes, 0x811c9dc5)}${fnv(bytes, 0x01234567)}`;
}

function fnv(bytes: Uint8Array, basis: number): string {
  let hash = basis;
  for (let i = 0; i < bytes.length; i++) hash = Math.imul(hash ^ (bytes[i] as number), 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
