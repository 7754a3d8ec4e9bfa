/** Arrays as one column: one behind the other. Pure. */
export function joined<A extends Int32Array | Float32Array | Float64Array | Uint8Array>(
  parts: readonly A[],
  type: new (length: number) => A,
): A {
  const whole = new type(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
