/** Casts of elements between floating-point types: bytes in, bytes out, little endian, at any alignment. */
import { type DType, dtypes } from "../dtype.ts";
import { errors } from "../errors.ts";
import { type FloatDType, formats } from "./formats.ts";

/** Elements that are cast at a time: what is between two types stays in the cache of a core. */
const chunkElements = 8192;

/** Bytes and what they are. */
export interface FloatBytes {
  readonly dtype: FloatDType;
  readonly bytes: Uint8Array;
}

/** True for the types that {@link castFloats} knows. Pure. */
export function isFloatDType(dtype: DType): dtype is FloatDType {
  return dtype === "f32" || Object.hasOwn(formats, dtype);
}

/**
 * Writes the numbers of `from` as those of `to`, rounded to nearest, ties to even. Signs, infinities, subnormal numbers and NaNs are kept where
 * the type has them; a number that is too large becomes infinite, and NaN in `f8_e4m3`, as in PyTorch.
 *
 * @throws MUSTER_ERR_TENSOR_CAST_INVALID when the two have not as many elements.
 */
export function castFloats(from: FloatBytes, to: FloatBytes): void {
  const elements = elementsIn(from);
  if (elementsIn(to) !== elements)
    throw errors.TensorCastInvalid({
      reason: `${elements} elements of ${from.dtype} do not fit ${to.bytes.length} bytes of ${to.dtype}`,
    });
  if (from.dtype === to.dtype) {
    to.bytes.set(from.bytes);
    return;
  }
  const bits = new Uint32Array(Math.min(chunkElements, elements));
  for (let at = 0; at < elements; at += chunkElements) {
    const chunk = bits.subarray(0, Math.min(chunkElements, elements - at));
    readBits(from, at, chunk);
    writeBits(to, at, chunk);
  }
}

/** Elements in bytes of a type. @throws MUSTER_ERR_TENSOR_CAST_INVALID when they are no whole number. */
export function elementsIn({ dtype, bytes }: FloatBytes): number {
  const elements = bytes.length / dtypes[dtype].bytes;
  if (Number.isInteger(elements)) return elements;
  throw errors.TensorCastInvalid({ reason: `${bytes.length} bytes are no whole number of elements of ${dtype}` });
}

/** Reads elements as the bits of f32, from element `at` on. */
export function readBits({ dtype, bytes }: FloatBytes, at: number, bits: Uint32Array): void {
  const size = dtypes[dtype].bytes;
  const source = bytes.subarray(at * size, (at + bits.length) * size);
  if (dtype === "f32") new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength).set(source);
  else if (size === 1) {
    const table = wideCodes(dtype);
    for (let i = 0; i < bits.length; i++) bits[i] = table[source[i]!]!;
  } else {
    const table = wideCodes(dtype);
    for (let i = 0; i < bits.length; i++) bits[i] = table[source[2 * i]! | (source[2 * i + 1]! << 8)]!;
  }
}

/** Writes the bits of f32 as elements, from element `at` on. */
export function writeBits({ dtype, bytes }: FloatBytes, at: number, bits: Uint32Array): void {
  const size = dtypes[dtype].bytes;
  const target = bytes.subarray(at * size, (at + bits.length) * size);
  if (dtype === "f32") {
    target.set(new Uint8Array(bits.buffer, bits.byteOffset, bits.byteLength));
    return;
  }
  const { narrow } = formats[dtype];
  for (let i = 0; i < bits.length; i++) {
    const code = narrow(bits[i]!);
    target[size * i] = code;
    if (size === 2) target[2 * i + 1] = code >>> 8;
  }
}

const tables = new Map<FloatDType, Uint32Array>();

/** The bits of every code of a type, made when the first is asked for. */
function wideCodes(dtype: Exclude<FloatDType, "f32">): Uint32Array {
  const table =
    tables.get(dtype) ??
    Uint32Array.from({ length: 2 ** (8 * dtypes[dtype].bytes) }, (_, code) => formats[dtype].widen(code));
  tables.set(dtype, table);
  return table;
}
