/**
 * Safetensors: eight bytes of header length (little endian), a JSON header, then the bytes of all tensors. The reader believes nothing:
 * a header that could be read in two ways, or that points anywhere but at its own tensors, is refused. Follows the format description of
 * the safetensors project, with a smaller header limit (16 MiB) and no gaps.
 */
import { bytesOfShape, messageOf, repeatsKey } from "@muster/base";
import { errors } from "./errors.ts";

const dtypeBytes = { F64: 8, F32: 4, F16: 2, BF16: 2, I64: 8, I32: 4, I16: 2, I8: 1, U8: 1, BOOL: 1 } as const;

/** Element types that the reader knows. */
export type SafetensorsDtype = keyof typeof dtypeBytes;

/** One tensor; its bytes are `data[beginBytes, endBytes)`, little endian, row major. */
export interface SafetensorsTensor {
  readonly name: string;
  readonly dtype: SafetensorsDtype;
  readonly shape: readonly number[];
  readonly beginBytes: number;
  readonly endBytes: number;
}

/** A file that was read. `data` is a view into the file's bytes, not a copy, and starts at a multiple of 8. */
export interface SafetensorsFile {
  /** In order of their bytes; they tile `data` without gap or overlap. */
  readonly tensors: readonly SafetensorsTensor[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly data: Uint8Array;
}

/** Longest header that is read or written. */
const headerBytesMax = 16 * 1024 * 1024;

const lengthBytes = 8;
const metadataKey = "__metadata__";

/**
 * Writes everything of a file but the tensors' bytes: length and header, padded with spaces to a multiple of 8.
 *
 * @param tensors - In order of their bytes, tiling `[0, dataBytes)`.
 * @param dataBytes - Size of the data that will follow.
 * @throws MUSTER_ERR_CHECKPOINT_SAFETENSORS_INVALID when the reader would refuse the file.
 */
export function encodeSafetensorsHeader(tensors: readonly SafetensorsTensor[], dataBytes: number): Uint8Array {
  checkTiling(tensors.map(checkTensor), dataBytes);
  const header = Object.fromEntries<object>(
    tensors.map(({ name, dtype, shape, beginBytes, endBytes }) => [
      name,
      { dtype, shape, data_offsets: [beginBytes, endBytes] },
    ]),
  );
  if (Object.keys(header).length !== tensors.length) refuse("two tensors have the same name");
  // Loaders of the Hugging Face libraries ask for this entry.
  const json = new TextEncoder().encode(JSON.stringify({ [metadataKey]: { format: "pt" }, ...header }));
  const paddedBytes = Math.ceil(json.length / 8) * 8;
  if (paddedBytes > headerBytesMax) refuse(`header of ${paddedBytes} bytes is over the limit of ${headerBytesMax}`);
  const out = new Uint8Array(lengthBytes + paddedBytes).fill(0x20);
  new DataView(out.buffer).setBigUint64(0, BigInt(paddedBytes), true);
  out.set(json, lengthBytes);
  return out;
}

/** Reads a file. @throws MUSTER_ERR_CHECKPOINT_SAFETENSORS_INVALID naming what is wrong with it. */
export function decodeSafetensors(file: Uint8Array): SafetensorsFile {
  if (file.length < lengthBytes) refuse(`file of ${file.length} bytes is too short for a header`);
  const declared = new DataView(file.buffer, file.byteOffset, lengthBytes).getBigUint64(0, true);
  if (declared > BigInt(headerBytesMax)) refuse(`header of ${declared} bytes is over the limit of ${headerBytesMax}`);
  const dataStart = lengthBytes + Number(declared);
  if (dataStart > file.length) refuse(`header of ${declared} bytes ends after the file of ${file.length} bytes`);
  const text = decodeText(file.subarray(lengthBytes, dataStart));
  const header = parseObject(text);
  if (repeatsKey(text, header)) refuse("a key of the header comes twice");
  const { [metadataKey]: rawMetadata, ...entries } = header;
  const metadata = toMetadata(rawMetadata);
  const tensors = Object.entries(entries)
    .map(([name, entry]) => toTensor(name, entry))
    .sort((a, b) => a.beginBytes - b.beginBytes || a.endBytes - b.endBytes);
  const data = file.subarray(dataStart);
  checkTiling(tensors, data.length);
  return { tensors, metadata, data };
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
  return value;
}

function toMetadata(value: unknown): Readonly<Record<string, string>> {
  if (value === undefined) return {};
  if (!isRecord(value)) refuse(`${metadataKey} is not an object`);
  const entries = Object.entries(value).map(([key, entry]) => {
    if (key === "__proto__" || typeof entry !== "string") refuse(`${metadataKey} may hold only text`);
    return [key, entry] as const;
  });
  return Object.fromEntries(entries);
}

function toTensor(name: string, entry: unknown): SafetensorsTensor {
  const label = JSON.stringify(name.slice(0, 64));
  if (!isRecord(entry) || Object.keys(entry).sort().join() !== "data_offsets,dtype,shape") {
    return refuse(`tensor ${label} must have exactly dtype, shape and data_offsets`);
  }
  const { dtype, shape, data_offsets: offsets } = entry;
  if (!isDtype(dtype)) return refuse(`tensor ${label} has the unknown dtype ${JSON.stringify(dtype)?.slice(0, 64)}`);
  if (!isCounts(shape)) return refuse(`tensor ${label} has a shape that is not a list of whole numbers`);
  if (!isCounts(offsets) || offsets.length !== 2) return refuse(`tensor ${label} has invalid data_offsets`);
  return checkTensor({ name, dtype, shape, beginBytes: offsets[0] as number, endBytes: offsets[1] as number });
}

/** What must hold for a tensor by itself, whether it is read or written. */
function checkTensor(tensor: SafetensorsTensor): SafetensorsTensor {
  const { name, dtype, shape, beginBytes, endBytes } = tensor;
  const label = JSON.stringify(name.slice(0, 64));
  if (name === "__proto__" || name === metadataKey) refuse(`tensor name ${label} is reserved`);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it refuses
  if (name.length < 1 || name.length > 200 || /[\u0000-\u001f\u007f]/.test(name)) {
    refuse(`tensor name ${label} must have 1 to 200 characters and no control characters`);
  }
  if (shape.length > 8) refuse(`tensor ${label} has ${shape.length} dimensions; at most 8 are read`);
  const sizeBytes = bytesOfShape(shape, dtypeBytes[dtype]);
  if (!Number.isSafeInteger(sizeBytes) || endBytes - beginBytes !== sizeBytes) {
    refuse(`tensor ${label} of shape [${shape}] needs ${sizeBytes} bytes but has [${beginBytes}, ${endBytes})`);
  }
  return tensor;
}

function checkTiling(tensors: readonly SafetensorsTensor[], dataBytes: number): void {
  let end = 0;
  for (const { name, beginBytes, endBytes } of tensors) {
    if (beginBytes !== end) {
      refuse(
        `tensor ${JSON.stringify(name.slice(0, 64))} starts at ${beginBytes}, but the one before it ends at ${end}`,
      );
    }
    end = endBytes;
  }
  if (end !== dataBytes) refuse(`tensors cover ${end} bytes of ${dataBytes}`);
}

function isDtype(value: unknown): value is SafetensorsDtype {
  return typeof value === "string" && Object.hasOwn(dtypeBytes, value);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((entry) => Number.isSafeInteger(entry) && entry >= 0);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function refuse(reason: string, cause?: unknown): never {
  throw errors.CheckpointSafetensorsInvalid({ reason }, cause);
}
