/** Boxes of a tensor's elements: a range of each dimension. What two ranks have in common is boxes, and a box is rows of bytes in the memory of either. */
import type { StridedRows } from "@muster/base";

/** A range of each dimension, in the tensor as a whole. */
export interface Box {
  readonly starts: readonly number[];
  readonly lengths: readonly number[];
}

/** Where the elements of a tensor lie in the memory of a rank, row-major. */
export interface Placement {
  /** Bytes from one element of a dimension to the next. */
  readonly strides: readonly number[];
  /** Where element 0 of every dimension would lie; below 0 where the rank does not have it. */
  readonly origin: number;
}

/** The elements that are in both, or `null`. Pure. */
export function common(a: Box, b: Box): Box | null {
  const starts: number[] = [];
  const lengths: number[] = [];
  for (const [dimension, start] of a.starts.entries()) {
    const other = b.starts[dimension] ?? 0;
    const begin = Math.max(start, other);
    const end = Math.min(start + (a.lengths[dimension] ?? 0), other + (b.lengths[dimension] ?? 0));
    if (begin >= end) return null;
    starts.push(begin);
    lengths.push(end - begin);
  }
  return { starts, lengths };
}

/** Row-major strides of a box in memory of its own. Pure. */
export function stridesOf(lengths: readonly number[], elementBytes: number): readonly number[] {
  const strides = new Array<number>(lengths.length);
  let bytes = elementBytes;
  for (let dimension = lengths.length - 1; dimension >= 0; dimension--) {
    strides[dimension] = bytes;
    bytes *= lengths[dimension] ?? 1;
  }
  return strides;
}

/** Where an element lies. Pure. */
function addressOf({ strides, origin }: Placement, element: readonly number[]): number {
  return element.reduce((at, index, dimension) => at + index * (strides[dimension] ?? 0), origin);
}

/** Elements `from` … `to` of a box, counted row-major, as boxes: at most two for each dimension. Pure. */
export function* boxesOfRange(box: Box, from: number, to: number, dimension = 0): Generator<Box> {
  if (from >= to) return;
  const length = box.lengths[dimension] ?? 1;
  const inner = product(box.lengths.slice(dimension + 1));
  if (dimension >= box.lengths.length || (from === 0 && to === length * inner)) return void (yield box);
  const [first, last] = [Math.floor(from / inner), Math.floor(to / inner)];
  const rows = (start: number, count: number): Box => ({
    starts: box.starts.with(dimension, (box.starts[dimension] ?? 0) + start),
    lengths: box.lengths.with(dimension, count),
  });
  if (first === last)
    return yield* boxesOfRange(rows(first, 1), from - first * inner, to - first * inner, dimension + 1);
  const whole = Math.ceil(from / inner);
  if (whole > first) yield* boxesOfRange(rows(first, 1), from - first * inner, inner, dimension + 1);
  if (last > whole) yield rows(whole, last - whole);
  yield* boxesOfRange(rows(last, 1), 0, to - last * inner, dimension + 1);
}

/** Number of elements. Pure. */
export function product(sizes: readonly number[]): number {
  let all = 1;
  for (const size of sizes) all *= size;
  return all;
}

/** The box in the memory of two ranks, as rows: as few and as long as they can be. Pure. */
export function* rowsOfBox(
  box: Box,
  source: Placement,
  target: Placement,
  elementBytes: number,
): Generator<StridedRows> {
  const { lengths } = box;
  let dimension = lengths.length;
  /** Takes dimensions in as long as they go on, in both memories, where `bytes` end. */
  const extend = (steps: readonly [source: number, target: number], count: number): number => {
    let all = count;
    for (; dimension > 0; dimension--) {
      const length = lengths[dimension - 1] ?? 1;
      const goesOn =
        source.strides[dimension - 1] === all * steps[0] && target.strides[dimension - 1] === all * steps[1];
      if (length > 1 && !goesOn) break;
      all *= length;
    }
    return all;
  };
  const bytes = extend([1, 1], elementBytes);
  let [sourceStride, targetStride, count] = [bytes, bytes, 1];
  if (dimension > 0) {
    sourceStride = source.strides[dimension - 1] ?? 0;
    targetStride = target.strides[dimension - 1] ?? 0;
    count = lengths[--dimension] ?? 1;
    count = extend([sourceStride, targetStride], count);
  }
  for (const outer of elementsOf(lengths.slice(0, dimension))) {
    const element = box.starts.map((start, i) => start + (outer[i] ?? 0));
    const [sourceOffset, targetOffset] = [addressOf(source, element), addressOf(target, element)];
    yield { sourceOffset, sourceStride, targetOffset, targetStride, bytes, count };
  }
}

/** Every index of some dimensions, row-major. */
function* elementsOf(lengths: readonly number[]): Generator<readonly number[]> {
  const [length, ...rest] = lengths;
  if (length === undefined) return void (yield []);
  for (let index = 0; index < length; index++) for (const inner of elementsOf(rest)) yield [index, ...inner];
}
