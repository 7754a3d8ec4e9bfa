/** Digests of weight sections: what two replicas compare to know that they hold the same bytes. */
import { errors } from "./errors.ts";
import { native } from "./native.ts";

const prefix = "xxh3b:";

/**
 * Digests bytes: `"xxh3b:"` and 16 hexadecimal digits.
 *
 * XXH3 (64 bits, seed 0) of each block of 256 KiB, then XXH3 over the block digests in order, 8 bytes little-endian each, followed by the
 * total length, 8 bytes little-endian. Not a secret and not collision-proof against an attacker; it finds corruption and divergence.
 * Blocks the caller: about 0.05 s per GiB.
 *
 * @throws MUSTER_ERR_NATIVE_MISSING
 */
export function digestOf(bytes: Uint8Array): string {
  return toDigest(native().digest(bytes));
}

/** The digest with these hexadecimal digits. */
export function toDigest(hex: string): string {
  return prefix + hex;
}

/** The hexadecimal digits of a digest. @throws MUSTER_ERR_NATIVE_OPTION_INVALID */
export function hexOf(digest: string): string {
  const hex = digest.slice(prefix.length);
  if (digest.startsWith(prefix) && /^[0-9a-f]{16}$/.test(hex)) return hex;
  throw errors.NativeOptionInvalid({
    field: "digest",
    value: digest,
    fix: `give "${prefix}" and 16 hexadecimal digits, as digestOf does`,
  });
}
