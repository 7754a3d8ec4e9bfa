/**
 * Bytes of a tensor. Every product on the way must be exact, since a zero at the end would hide one that overflowed: the first that is not
 * exact, no safe integer, is the answer.
 */
export function bytesOfShape(shape: readonly number[], elementBytes: number): number {
  let bytes = elementBytes;
  for (const size of shape) bytes = Number.isSafeInteger(bytes) ? bytes * size : bytes;
  return bytes;
}
