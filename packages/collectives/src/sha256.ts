/** SHA-256 of several pieces at once, on a thread of the data plane. */
import { errors } from "./errors.ts";
import { native } from "./native.ts";

const digestBytes = 32;

/**
 * True where this processor has the instructions with which {@link sha256Each} takes about half of the time of node:crypto. Elsewhere that is the faster one.
 *
 * @throws MUSTER_ERR_NATIVE_MISSING
 */
export function hasShaInstructions(): boolean {
  return native().hasShaInstructions();
}

/**
 * SHA-256 of each piece, in their order, computed in turns by one thread. Their bytes are left alone until then.
 *
 * @throws MUSTER_ERR_NATIVE_MISSING; MUSTER_ERR_NATIVE_FAILED when the environment ends
 */
export async function sha256Each(pieces: readonly Uint8Array[]): Promise<readonly Uint8Array[]> {
  const list = [...pieces];
  const done = await native().sha256Each(list);
  if (!done.ok) throw errors.NativeFailed({ reason: done.message });
  return list.map((_, i) => done.value.subarray(i * digestBytes, (i + 1) * digestBytes));
}
