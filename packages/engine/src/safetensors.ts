/**
 * The safetensors format: 8 bytes of header length, a JSON header, raw little-endian tensors without gaps.
 * The reader trusts nothing: every offset is checked before a byte is used.
 */
import { bytesOfShape, repeatsKey } from "@muster/base";
import type { TensorSpec } from "./engine.ts";
import { errors } from "./errors.ts";

const wireTypes = { F32: "f32", BF16: "bf16", F16: "f16" } as const;
const elementBytes = { f32: 4, bf16: 2, f16: 2 } as const;
/** Bound of the reference implementation. */
const headerBytesMax = 100_000_000;

/** Encodes tensors. `data` holds them as the specs say, in order and without gaps. */
export function encodeSafetensors(tensors: readonly TensorSpec[], data: Uint8Array): Uint8Array {
  const entries = tensors.map(({ name, dtype, shape, offsetBytes, sizeBytes }) => [
    name,
    { dtype: dtype.toUpperCase(), shape, data_offsets: [offsetBytes, offsetBytes + sizeBytes] },
  ]);
  const json = JSON.stringify({ __metadata__: { format: "pt" }, ...Object.fromEntries(entries) });
  // Padded with spaces so that the tensors start at a multiple of 8.
  const unpadded = Buffer.byteLength(json);
  const header = Buffer.from(json.padEnd(json.length + ((8 - (unpadded % 8)) % 8), " "));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, header, data]);
}

/**
 * Decodes a file.
 *
 * @returns Specs in the order of their bytes, and the bytes as a view of `file`.
 * @throws MUSTER_ERR_SAFETENSORS_MALFORMED for anything but dense, in-bounds, correctly sized tensors.
 */
export function decodeSafetensors(file: Uint8Array): {
  readonly tensors: readonly TensorSpec[];
  readonly data: Uint8Array;
} {
  if (file.length < 8) fail(`${file.length} bytes are too few for a header length`);
  const headerBytes = Number(new DataView(file.buffer, file.byteOffset, 8).getBigUint64(0, true));
  if (headerBytes > headerBytesMax) fail(`a header of ${headerBytes} bytes is over the limit of ${headerBytesMax}`);
  if (8 + headerBytes > file.length) fail(`a header of ${headerBytes} bytes does not fit in ${file.length} bytes`);
  const header = parseHeader(file.subarray(8, 8 + headerBytes));
  const data = file.subarray(8 + headerBytes);
  const tensors = [...header]
    .filter(([name]) => name !== "__metadata__")
    .map(([name, entry]) => specOf(name, entry))
    .sort((a, b) => a.offsetBytes - b.offsetBytes || a.sizeBytes - b.sizeBytes);
  let end = 0;
  for (const tensor of tensors) {
    if (tensor.offsetBytes !== end) fail(`tensor ${tensor.name} starts at ${tensor.offsetBytes}, not at ${end}`);
    end += tensor.sizeBytes;
  }
  if (end !== data.length) fail(`tensors end at ${end}, the data at ${data.length}`);
  return { tensors, data };
}

function parseHeader(bytes: Uint8Array): Map<string, unknown> {
  let header: unknown;
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    header = JSON.parse(text);
  } catch (cause) {
    throw errors.SafetensorsMalformed({ reason: "the header is not JSON" }, cause);
  }
  if (typeof header !== "object" || header === null || Array.isArray(header)) fail("the header is not an object");
  if (repeatsKey(text, header)) fail("a key of the header comes twice");
  return new Map(Object.entries(header as object));
}

function specOf(name: string, entry: unknown): TensorSpec {
  const { dtype, shape, data_offsets: offsets } = (entry ?? {}) as Record<string, unknown>;
  const type = Object.hasOwn(wireTypes, String(dtype)) ? wireTypes[dtype as keyof typeof wireTypes] : null;
  if (!type) return fail(`tensor ${name} has the unsupported dtype ${String(dtype)}`);
  if (!isCounts(shape)) return fail(`tensor ${name} has an invalid shape`);
  if (!isCounts(offsets) || offsets.length !== 2) return fail(`tensor ${name} has invalid offsets`);
  const [start, end] = offsets as [number, number];
  const sizeBytes = bytesOfShape(shape, elementBytes[type]);
  if (end - start !== sizeBytes) return fail(`tensor ${name} has ${end - start} bytes, its shape says ${sizeBytes}`);
  return { name, dtype: type, shape, offsetBytes: start, sizeBytes };
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.length <= 64 && value.every((n) => Number.isSafeInteger(n) && n >= 0);
}

function fail(reason: string): never {
  throw errors.SafetensorsMalformed({ reason: reason.slice(0, 300) });
}
