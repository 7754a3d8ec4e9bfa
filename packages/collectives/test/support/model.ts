/** A model whose every byte tells its tensor and its place, and the naive way to cut it. */
import { type ModelTensor, type ParallelLayout, shardsOf } from "../../src/index.ts";

const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);

const wholes = new WeakMap<ModelTensor, Uint8Array>();

/** The whole tensor: every byte tells its tensor and its place. */
function wholeOf(tensor: ModelTensor): Uint8Array {
  const whole = wholes.get(tensor) ?? makeWhole(tensor);
  wholes.set(tensor, whole);
  return whole;
}

function makeWhole({ name, shape, elementBytes }: ModelTensor): Uint8Array {
  const bytes = new Uint8Array(product(shape) * elementBytes);
  const seed = [...name].reduce((sum, char) => sum * 31 + char.charCodeAt(0), 7);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Math.imul(i + seed, 0x9e3779b1) >>> 13;
  return bytes;
}

/** The naive way: gather every tensor, and cut it for one rank element by element. */
export function splitNaively(tensors: readonly ModelTensor[], layout: ParallelLayout, rank: number): Uint8Array {
  const shards = shardsOf(tensors, layout, rank);
  const section = new Uint8Array(shards.reduce((end, { offset, bytes }) => Math.max(end, offset + bytes), 0));
  for (const { tensor, start, length, rows, flat, offset } of shards) {
    const { shape, partition, elementBytes } = tensor;
    const whole = wholeOf(tensor);
    const inner = partition === null ? 1 : product(shape.slice(partition + 1));
    const size = partition === null ? 1 : shape[partition]!;
    const elements = product(shape);
    const ofRow = product(shape.slice(1));
    const isOwn = (element: number): boolean => {
      const index = Math.floor(element / inner) % size;
      const row = Math.floor(element / ofRow);
      if (rows && (row < rows.start || row >= rows.start + rows.length)) return false;
      return partition === null || (index >= start && index < start + length);
    };
    let at = offset;
    let count = 0;
    for (let element = 0; element < elements; element++) {
      if (!isOwn(element)) continue;
      const place = count++;
      if (flat && (place < flat.start || place >= flat.start + flat.length)) continue;
      for (let byte = 0; byte < elementBytes; byte++) section[at++] = whole[element * elementBytes + byte]!;
    }
  }
  return section;
}
