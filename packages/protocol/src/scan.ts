/**
 * A look at packed bytes before anything is made of them: what costs far more to decode than to send is refused by its headers. One pass over the
 * bytes, without an allocation for what is in them; lengths come first, so a promise of millions of elements is refused where it stands.
 */

/** How much may be in packed bytes. */
export interface PackedBounds {
  /** Elements of all arrays and keys and values of all maps together. */
  readonly elementsMax: number;
  /** Elements of one array. */
  readonly arrayMax: number;
}

/** Of messages that only the controller says, and of stored groups: what fits into the largest of them. */
export const wideBounds: PackedBounds = { elementsMax: 400_000, arrayMax: 65_536 };

/** Of reports, heartbeats and answers. */
export const narrowBounds: PackedBounds = { elementsMax: 80_000, arrayMax: 2_048 };

/** Deepest nesting; no message has more than seven. */
export const depthMax = 16;

/** Keys of one map; no object of the protocol has half as many. */
export const keysMax = 64;

/** What is wrong with packed bytes, or `null`. What is no whole value may pass: decoding says so. Pure. */
export function flawOfPacked(data: Uint8Array, { elementsMax, arrayMax }: PackedBounds): string | null {
  const left = new Float64Array(depthMax + 1);
  left[0] = 1;
  let depth = 0;
  let elements = 0;
  let at = 0;
  while (at < data.length) {
    while (left[depth] === 0) {
      if (depth === 0) return null;
      depth -= 1;
    }
    left[depth] = (left[depth] as number) - 1;
    const head = data[at] as number;
    const { skip, array, keys } = headerOf(data, at);
    if (skip < 0) return `extension or unknown type 0x${head.toString(16)}`;
    at += skip;
    const inside = array + 2 * keys;
    if (inside === 0) continue;
    if (array > arrayMax) return `an array of ${array} elements; at most ${arrayMax}`;
    if (keys > keysMax) return `a map of ${keys} keys; at most ${keysMax}`;
    elements += inside;
    if (elements > elementsMax) return `more than ${elementsMax} elements`;
    depth += 1;
    if (depth > depthMax) return `nested deeper than ${depthMax}`;
    left[depth] = inside;
  }
  return null;
}

interface Header {
  /** Bytes until the next header; negative for what is refused. */
  readonly skip: number;
  readonly array: number;
  readonly keys: number;
}

const plain = (skip: number): Header => ({ skip, array: 0, keys: 0 });

function headerOf(data: Uint8Array, at: number): Header {
  const head = data[at] as number;
  if (head <= 0x7f || head >= 0xe0) return one;
  if (head <= 0x8f) return { skip: 1, array: 0, keys: head & 0x0f };
  if (head <= 0x9f) return { skip: 1, array: head & 0x0f, keys: 0 };
  if (head <= 0xbf) return plain(1 + (head & 0x1f));
  switch (head) {
    case 0xc4:
    case 0xd9:
      return plain(2 + lengthOf(data, at, 1));
    case 0xc5:
    case 0xda:
      return plain(3 + lengthOf(data, at, 2));
    case 0xc6:
    case 0xdb:
      return plain(5 + lengthOf(data, at, 4));
    case 0xdc:
      return { skip: 3, array: lengthOf(data, at, 2), keys: 0 };
    case 0xdd:
      return { skip: 5, array: lengthOf(data, at, 4), keys: 0 };
    case 0xde:
      return { skip: 3, array: 0, keys: lengthOf(data, at, 2) };
    case 0xdf:
      return { skip: 5, array: 0, keys: lengthOf(data, at, 4) };
    default:
      return plain(sizes[head] ?? -1);
  }
}

const one = plain(1);

/** Bytes of nil, booleans and numbers, with their headers. */
const sizes: Readonly<Record<number, number>> = {
  ...{ 192: 1, 194: 1, 195: 1, 202: 5, 203: 9 },
  ...{ 204: 2, 205: 3, 206: 5, 207: 9, 208: 2, 209: 3, 210: 5, 211: 9 },
};

/** The big-endian number after a header; bytes that are not there count as 0. */
function lengthOf(data: Uint8Array, at: number, bytes: number): number {
  let length = 0;
  for (let i = 1; i <= bytes; i++) length = length * 256 + (data[at + i] ?? 0);
  return length;
}
