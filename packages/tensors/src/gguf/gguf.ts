/**
 * GGUF version 3, the file that llama.cpp loads (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): a header of named values, a table of
 * tensors, then their bytes, each at a multiple of 32. Little-endian throughout. Pure.
 */

/** A value of the header. */
export type GgufValue =
  | { readonly type: "u32" | "f32" | "i32"; readonly value: number }
  | { readonly type: "text"; readonly value: string }
  | { readonly type: "bool"; readonly value: boolean }
  | { readonly type: "texts"; readonly value: readonly string[] }
  | { readonly type: "i32s"; readonly value: readonly number[] };

/** A tensor of 32-bit floats. */
export interface GgufTensor {
  readonly name: string;
  /** Rows first, as everywhere else here; the file has it the other way round. */
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

const alignment = 32;
const typeIds = { u32: 4, i32: 5, f32: 6, bool: 7, text: 8, array: 9 } as const;

/** Writes a file. @returns Its parts, in order: a large model is not copied into one. */
export function encodeGguf(
  values: Readonly<Record<string, GgufValue>>,
  tensors: readonly GgufTensor[],
): readonly Uint8Array[] {
  const entries = Object.entries(values);
  let offset = 0;
  const table = tensors.map(({ name, shape, bytes }) => {
    const row = Buffer.concat([
      ...[text(name), u32(shape.length), ...[...shape].reverse().map(u64)],
      ...[u32(0), u64(offset)],
    ]);
    offset += padded(bytes.length);
    return row;
  });
  const header = Buffer.concat([
    ...[Buffer.from("GGUF"), u32(3), u64(tensors.length), u64(entries.length)],
    ...entries.map(([key, value]) => Buffer.concat([text(key), fieldOf(value)])),
    ...table,
  ]);
  const rest = (length: number): Uint8Array => new Uint8Array(padded(length) - length);
  return [header, rest(header.length), ...tensors.flatMap(({ bytes }) => [bytes, rest(bytes.length)])];
}

const padded = (length: number): number => Math.ceil(length / alignment) * alignment;

function fieldOf(given: GgufValue): Buffer {
  switch (given.type) {
    case "u32":
      return Buffer.concat([u32(typeIds.u32), u32(given.value)]);
    case "i32":
      return Buffer.concat([u32(typeIds.i32), i32(given.value)]);
    case "f32":
      return Buffer.concat([u32(typeIds.f32), f32(given.value)]);
    case "bool":
      return Buffer.concat([u32(typeIds.bool), Buffer.of(given.value ? 1 : 0)]);
    case "text":
      return Buffer.concat([u32(typeIds.text), text(given.value)]);
    case "texts":
      return array(typeIds.text, given.value.map(text));
    case "i32s":
      return array(typeIds.i32, given.value.map(i32));
  }
}

const array = (type: number, items: readonly Buffer[]): Buffer =>
  Buffer.concat([u32(typeIds.array), u32(type), u64(items.length), ...items]);

function number(bytes: number, write: (buffer: Buffer) => void): Buffer {
  const buffer = Buffer.alloc(bytes);
  write(buffer);
  return buffer;
}
const u32 = (value: number): Buffer => number(4, (buffer) => buffer.writeUInt32LE(value));
const i32 = (value: number): Buffer => number(4, (buffer) => buffer.writeInt32LE(value));
const f32 = (value: number): Buffer => number(4, (buffer) => buffer.writeFloatLE(value));
const u64 = (value: number): Buffer => number(8, (buffer) => buffer.writeBigUInt64LE(BigInt(value)));

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([u64(bytes.length), bytes]);
}
