/**
 * Safetensors: eight bytes of header length (little endian), a JSON header, then the bytes of all tensors. The reader believes nothing:
 * a header that could be read in two ways, or that points anywhere but at its own tensors, is refused. Follows the format description of
 * the safetensors project, with its limit of the header, and without gaps.
 */
import { messageOf } from "@muster/base";
import { dtypeOfSafetensors, dtypes } from "../dtype.ts";
import { errors } from "../errors.ts";
import { byOffset, faultOfSpec, faultOfTiling, labelOf, type PlacedTensor } from "../tensor-spec.ts";
import { repeatsKey, unplainAt } from "./strict-json.ts";

/** What a file says before its data. */
export interface SafetensorsHeader {
  /** In order of their bytes; they tile the data without gap or overlap. Offsets count from the start of the data. */
  readonly tensors: readonly PlacedTensor[];
  readonly metadata: Readonly<Record<string, string>>;
}

/** Longest header that is read or written, in bytes: that of the reference implementation. */
const headerBytesMax = 100_000_000;
/** Bytes of the header's length, which come first. */
export const lengthBytes = 8;
const metadataKey = "__metadata__";

/**
 * Writes everything of a file but the tensors' bytes: length and header, padded with spaces to a multiple of 8. Pure.
 *
 * @param tensors - In order of their bytes, tiling `[0, dataBytes)`.
 * @param dataBytes - Size of the data that will follow.
 * @throws MUSTER_ERR_SAFETENSORS_INVALID when the reader would refuse the file.
 */
export function encodeSafetensorsHeader(tensors: readonly PlacedTensor[], dataBytes: number): Uint8Array {
  for (const tensor of tensors) checkTensor(tensor, tensor.offsetBytes + tensor.sizeBytes);
  check(faultOfTiling(tensors, dataBytes));
  if (new Set(tensors.map(({ name }) => name)).size !== tensors.length) refuse("two tensors have the same name");
  const entries = tensors.map(({ name, dtype, shape, offsetBytes, sizeBytes }) => {
    const entry = { dtype: dtypes[dtype].safetensors, shape, data_offsets: [offsetBytes, offsetBytes + sizeBytes] };
    return `${JSON.stringify(name)}:${JSON.stringify(entry)}`;
  });
  // Loaders of the Hugging Face libraries ask for the format.
  const json = new TextEncoder().encode(`{${[`"${metadataKey}":{"format":"pt"}`, ...entries].join(",")}}`);
  const paddedBytes = Math.ceil(json.length / 8) * 8;
  if (paddedBytes > headerBytesMax) refuse(`header of ${paddedBytes} bytes is over the limit of ${headerBytesMax}`);
  const out = new Uint8Array(lengthBytes + paddedBytes).fill(0x20);
  new DataView(out.buffer).setBigUint64(0, BigInt(paddedBytes), true);
  out.set(json, lengthBytes);
  return out;
}

/** Writes a whole small file. @throws MUSTER_ERR_SAFETENSORS_INVALID when the reader would refuse it. */
export function encodeSafetensors(tensors: readonly PlacedTensor[], data: Uint8Array): Uint8Array {
  return Buffer.concat([encodeSafetensorsHeader(tensors, data.length), data]);
}

/**
 * Bytes of the header that the first bytes of a file announce. Pure.
 *
 * @throws MUSTER_ERR_SAFETENSORS_INVALID when there is no room for it in a file of `fileBytes`.
 */
export function headerBytesOf(start: Uint8Array, fileBytes: number): number {
  if (start.length < lengthBytes) refuse(`file of ${fileBytes} bytes is too short for a header`);
  const declared = new DataView(start.buffer, start.byteOffset, lengthBytes).getBigUint64(0, true);
  if (declared > BigInt(headerBytesMax)) refuse(`header of ${declared} bytes is over the limit of ${headerBytesMax}`);
  if (lengthBytes + Number(declared) > fileBytes)
    refuse(`header of ${declared} bytes ends after the file of ${fileBytes} bytes`);
  return Number(declared);
}

/** Reads the header of a file with `dataBytes` of data. Pure. @throws MUSTER_ERR_SAFETENSORS_INVALID naming what is wrong with it. */
export function decodeSafetensorsHeader(json: Uint8Array, dataBytes: number): SafetensorsHeader {
  const { [metadataKey]: rawMetadata, ...entries } = parseObject(decodeText(json));
  const metadata = toMetadata(rawMetadata);
  const tensors = byOffset(Object.entries(entries).map(([name, entry]) => toTensor(name, entry)));
  check(faultOfTiling(tensors, dataBytes));
  return { tensors, metadata };
}

function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    return refuse("header is not UTF-8", error);
  }
}

function parseObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    refuse(`header is not JSON: ${messageOf(error).slice(0, 120)}`, error);
  }
  if (!text.startsWith("{") || !isRecord(value)) refuse("header is not a JSON object");
  if (repeatsKey(text, value)) refuse("a key of the header comes twice");
  const at = unplainAt(text);
  if (at !== null) {
    const found = JSON.stringify(text.slice(at, at + 20));
    refuse(`header has ${found} at character ${at}; only text and whole numbers in plain digits may stand there`);
  }
  return value;
}

function toMetadata(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined) return {};
  if (!isRecord(value)) refuse(`${metadataKey} is not an object`);
  for (const [key, entry] of Object.entries(value))
    if (key === "__proto__" || typeof entry !== "string") refuse(`${metadataKey} may hold only text`);
  return value as Record<string, string>;
}

function toTensor(name: string, entry: unknown): PlacedTensor {
  const label = labelOf(name);
  if (!isRecord(entry) || Object.keys(entry).sort().join() !== "data_offsets,dtype,shape") {
    return refuse(`tensor ${label} must have exactly dtype, shape and data_offsets`);
  }
  const { shape, data_offsets: offsets } = entry;
  const dtype = dtypeOfSafetensors(entry.dtype);
  if (dtype === null)
    return refuse(`tensor ${label} has the unknown dtype ${JSON.stringify(entry.dtype)?.slice(0, 64)}`);
  if (!isCounts(shape)) return refuse(`tensor ${label} has a shape that is not a list of whole numbers`);
  if (!isCounts(offsets) || offsets.length !== 2) return refuse(`tensor ${label} has invalid data_offsets`);
  const [offsetBytes, endBytes] = offsets as [number, number];
  return checkTensor({ name, dtype, shape, offsetBytes, sizeBytes: endBytes - offsetBytes }, endBytes);
}

/** What must hold for a tensor by itself, whether it is read or written. */
function checkTensor(tensor: PlacedTensor, endBytes: number): PlacedTensor {
  check(faultOfSpec(tensor));
  const { name, dtype, shape, offsetBytes, sizeBytes } = tensor;
  const needed = shape.reduce((product, size) => product * size, dtypes[dtype].bytes);
  if (sizeBytes !== needed)
    refuse(`tensor ${labelOf(name)} of shape [${shape}] needs ${needed} bytes but has [${offsetBytes}, ${endBytes})`);
  return tensor;
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((entry) => Number.isSafeInteger(entry) && entry >= 0);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function check(fault: string | null): void {
  if (fault !== null) refuse(fault);
}

function refuse(reason: string, cause?: unknown): never {
  throw errors.SafetensorsInvalid({ reason }, cause);
}
