/** A tensor as everybody names it: what it is called, what its elements are, and how many along each dimension. */
import { type DType, dtypes } from "./dtype.ts";

/** One tensor. Elements are little endian, in row-major order. */
export interface TensorSpec {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** A tensor and where it lies in a file or section: bytes `offsetBytes` … `offsetBytes + sizeBytes`. */
export interface PlacedTensor extends TensorSpec {
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** Longest name of a tensor, in UTF-16 units. */
const nameMax = 200;
const dimensionsMax = 8;
/** Names that mean something else to the readers of files and objects. */
const reserved: readonly string[] = ["__proto__", "__metadata__"];
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it finds
const unprintable = /[\u0000-\u001f\u007f]|\p{Surrogate}/u;

/** Bytes of a tensor; no safe integer when a product on the way was not exact, since a zero at the end would hide that. Pure. */
export function bytesOf({ dtype, shape }: TensorSpec): number {
  let bytes = dtypes[dtype].bytes;
  for (const size of shape) bytes = Number.isSafeInteger(bytes) ? bytes * size : bytes;
  return bytes;
}

/** What is wrong with a tensor by itself, as the end of a sentence; `null` when nothing is. Pure. */
export function faultOfSpec(spec: TensorSpec): string | null {
  const { name, shape } = spec;
  const label = labelOf(name);
  if (reserved.includes(name)) return `tensor name ${label} is reserved`;
  if (name.length < 1 || name.length > nameMax || unprintable.test(name))
    return `tensor name ${label} must have 1 to ${nameMax} characters and no control characters`;
  if (shape.length > dimensionsMax)
    return `tensor ${label} has ${shape.length} dimensions; at most ${dimensionsMax} are read`;
  if (!Number.isSafeInteger(bytesOf(spec))) return `tensor ${label} of shape [${shape}] has too many bytes to count`;
  return null;
}

/** A tensor's name for a message: quoted, and cut to 64 characters. Pure. */
export function labelOf(name: string): string {
  return JSON.stringify(name.slice(0, 64));
}

/** Tensors in the order of their bytes. Pure. */
export function byOffset(tensors: readonly PlacedTensor[]): readonly PlacedTensor[] {
  return [...tensors].sort((a, b) => a.offsetBytes - b.offsetBytes || a.sizeBytes - b.sizeBytes);
}

/** Places tensors one behind the other, without gaps. Pure. */
export function placeDensely(specs: Iterable<TensorSpec>): readonly PlacedTensor[] {
  const placed: PlacedTensor[] = [];
  let offsetBytes = 0;
  for (const { name, dtype, shape } of specs) {
    const sizeBytes = bytesOf({ name, dtype, shape });
    placed.push({ name, dtype, shape, offsetBytes, sizeBytes });
    offsetBytes += sizeBytes;
  }
  return placed;
}

/** What keeps tensors, in the order of their bytes, from tiling `[0, dataBytes)`; `null` when nothing does. Pure. */
export function faultOfTiling(tensors: readonly PlacedTensor[], dataBytes: number): string | null {
  let end = 0;
  for (const { name, offsetBytes, sizeBytes } of tensors) {
    if (offsetBytes !== end)
      return `tensor ${labelOf(name)} starts at ${offsetBytes}, but the one before it ends at ${end}`;
    end += sizeBytes;
  }
  return end === dataBytes ? null : `tensors cover ${end} bytes of ${dataBytes}`;
}
