/** Digests of weight sections: what two replicas compare to know that they hold the same bytes. */
import type { SectionBytes } from "@muster/base";
import { errors } from "./errors.ts";
import { cancellable, native } from "./native.ts";
import { piecesOf } from "./section-bytes.ts";

const prefix = "xxh3b:";
/** Hexadecimal digits of a digest. */
const digits = 16;

/**
 * Digests bytes: `"xxh3b:"` and 16 hexadecimal digits.
 *
 * XXH3 (64 bits, seed 0) of each block of 256 KiB, then XXH3 over the block digests in order, 8 bytes little-endian each, followed by the
 * total length, 8 bytes little-endian. Not a secret and not collision-proof against an attacker; it finds corruption and divergence.
 * Blocks the caller: about 0.05 s per GiB. What may be large is given to {@link digestsOf}.
 *
 * @throws MUSTER_ERR_NATIVE_MISSING
 */
export function digestOf(bytes: Uint8Array): string {
  return toDigest(native().digest(bytes));
}

/**
 * Digests sections on threads of their own, together, as {@link digestOf} does each. Leave them alone until then. One that comes in pieces has the digest of
 * the whole.
 *
 * @throws the reason of `signal` once it is aborted; MUSTER_ERR_NATIVE_MISSING, MUSTER_ERR_NATIVE_FAILED; MUSTER_ERR_NATIVE_OPTION_INVALID for a piece that
 *   is no multiple of 256 KiB and not the last
 */
export async function digestsOf(sections: readonly SectionBytes[], signal: AbortSignal): Promise<readonly string[]> {
  signal.throwIfAborted();
  const given = sections.map((bytes, i) => piecesOf(`${i}`, bytes));
  const pieces = Uint32Array.from(given, ({ length }) => length);
  const done = await cancellable(signal, (cancellation) =>
    native().digestAll({ sections: given.flat(), pieces, cancellation }),
  );
  signal.throwIfAborted();
  if (!done.ok) throw errors.NativeFailed({ reason: done.message });
  return sections.map((_, i) => toDigest(done.value.slice(i * digits, (i + 1) * digits)));
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
