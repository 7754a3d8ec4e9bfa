/** A reader of safetensors that is too simple to be wrong: it counts for every byte of the data how many tensors have it. */

const elementBits: Readonly<Record<string, number>> = {
  ...{ F64: 64, F32: 32, F16: 16, BF16: 16, F8_E4M3: 8, F8_E5M2: 8, BOOL: 8 },
  ...{ I64: 64, I32: 32, I16: 16, I8: 8, U64: 64, U32: 32, U16: 16, U8: 8 },
};

/** One entry of a header, as it stands there. */
export interface NaiveEntry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly offsets: readonly number[];
}

/** True when the entries describe a file with `dataBytes` of data. */
export function acceptsNaively(entries: readonly NaiveEntry[], dataBytes: number): boolean {
  const owners = new Array<number>(dataBytes).fill(0);
  for (const { dtype, shape, offsets } of entries) {
    const [begin = -1, end = -1] = offsets;
    const bits = elementBits[dtype];
    if (bits === undefined || begin < 0 || end > dataBytes || shape.some((size) => size < 0)) return false;
    const needed = shape.reduce((product, size) => product * BigInt(size), BigInt(bits / 8));
    if (BigInt(end) - BigInt(begin) !== needed) return false;
    for (let byte = begin; byte < end; byte++) owners[byte]! += 1;
    // A tensor without bytes lies between two others, or at an end.
    if (begin === end && entries.some(({ offsets: [from = 0, to = 0] }) => from < begin && begin < to)) return false;
  }
  return owners.every((count) => count === 1);
}
