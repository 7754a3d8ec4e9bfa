/** Who takes which bytes from whom when a model that is cut one way is wanted cut another way. */
import type { StridedRows } from "@muster/base";
import {
  checkModel,
  checkRank,
  columnOf,
  cutOf,
  type ModelTensor,
  ownerOf,
  type ParallelLayout,
  partOf,
  placeOf,
  ranksOf,
  stagesOf,
} from "./layout.ts";

/** Rows of bytes of one source rank's section, and where they go in the section of the receiving rank. */
export interface Slice extends StridedRows {
  /** Name of the tensor. */
  readonly tensor: string;
  /** Rank that has the bytes. */
  readonly from: number;
}

/** What one rank takes. */
export interface RankPlan {
  readonly rank: number;
  /** Length of its section. */
  readonly sectionBytes: number;
  readonly slices: readonly Slice[];
}

type Layouts = readonly [from: ParallelLayout, to: ParallelLayout];

/**
 * Plans the way from one layout to one rank of another, which gets each byte of its section once, from a rank that has it. Where several have it (data-
 * parallel copies, tensors that are not cut), the one that gives this rank least so far; ranks of the target begin at different ones. The plan
 * of a rank does not depend on those of the others, so each makes its own. Pure.
 *
 * @param layouts The one that the model is cut by, and the one that it is wanted in.
 * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for layouts, tensors or a rank that make no sense.
 */
export function planRank(tensors: readonly ModelTensor[], layouts: Layouts, rank: number): RankPlan {
  checkLayouts(tensors, layouts);
  checkRank(layouts[1], rank);
  return planWith(sourcesOf(tensors, layouts[0]), layouts[1], rank);
}

/**
 * The plans of {@link planRank} for all ranks. Pure.
 *
 * @returns One plan for each rank of `to`.
 * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for layouts or tensors that make no sense.
 */
export function planReshard(
  tensors: readonly ModelTensor[],
  from: ParallelLayout,
  to: ParallelLayout,
): readonly RankPlan[] {
  checkLayouts(tensors, [from, to]);
  const sources = sourcesOf(tensors, from);
  return Array.from({ length: ranksOf(to) }, (_, rank) => planWith(sources, to, rank));
}

function checkLayouts(tensors: readonly ModelTensor[], layouts: Layouts): void {
  for (const layout of layouts) checkModel(tensors, layout);
}

interface Sources {
  readonly tensors: readonly ModelTensor[];
  readonly layout: ParallelLayout;
  /** By tensor. */
  readonly stages: Int32Array;
  /** By tensor, where it begins in the section of the ranks at this place of tensor parallelism. */
  offsetsOf(tp: number): Float64Array;
}

function sourcesOf(tensors: readonly ModelTensor[], layout: ParallelLayout): Sources {
  const known = new Map<number, Float64Array>();
  const stages = stagesOf(tensors, layout);
  const offsetsOf = (tp: number): Float64Array => {
    const offsets = known.get(tp) ?? columnOf(tensors, { layout, stages }, tp).offsets;
    known.set(tp, offsets);
    return offsets;
  };
  return { tensors, layout, stages, offsetsOf };
}

function planWith(sources: Sources, layout: ParallelLayout, rank: number): RankPlan {
  const place = placeOf(layout, rank);
  const stages = stagesOf(sources.tensors, layout);
  const { offsets, ends } = columnOf(sources.tensors, { layout, stages }, place.tp);
  const giving = new Giving(sources, rank);
  for (const [index, tensor] of sources.tensors.entries())
    if (stages[index] === place.pp)
      takeShard(giving, tensor, { index, offset: offsets[index] ?? 0, ...partOf(tensor, layout, place.tp) });
  return { rank, sectionBytes: ends[place.pp] ?? 0, slices: giving.slices() };
}

/** A shard that is wanted, of the tensor with this index. */
interface Target {
  readonly index: number;
  readonly offset: number;
  readonly start: number;
  readonly length: number;
}

/** Takes a shard in parts, each from the shard of one place in tensor parallelism. */
function takeShard(giving: Giving, tensor: ModelTensor, { index, offset, start, length }: Target): void {
  const { name, shape, partition } = tensor;
  const { rows, innerBytes } = rowsOf(tensor);
  if (partition === null) {
    const [sourceStride, targetStride, bytes] = [innerBytes, innerBytes, innerBytes];
    const whole = { sourceOffset: 0, sourceStride, targetOffset: offset, targetStride, bytes, count: 1 };
    giving.add({ tensor: name, from: 0, ...whole }, { index, tp: null });
    return;
  }
  if (length === 0) return;
  const size = shape[partition] ?? 1;
  const ranks = giving.places;
  const last = ownerOf(size, start + length - 1, ranks);
  for (let tp = ownerOf(size, start, ranks); tp <= last; tp++) {
    const source = cutOf(size, tp, ranks);
    const begin = Math.max(source.start, start);
    const columns = Math.min(source.start + source.length, start + length) - begin;
    const isWhole = columns === source.length && columns === length;
    const rowsOfOne = isWhole ? rows : 1;
    const slice = {
      tensor: name,
      from: 0,
      sourceOffset: (begin - source.start) * innerBytes,
      sourceStride: source.length * innerBytes * rowsOfOne,
      targetOffset: offset + (begin - start) * innerBytes,
      targetStride: length * innerBytes * rowsOfOne,
      bytes: columns * innerBytes * rowsOfOne,
      count: isWhole ? 1 : rows,
    };
    giving.add(slice, { index, tp });
  }
}

/** A tensor as rows along the dimensions before the one that is cut, and the bytes behind one element of that one. */
function rowsOf({ shape, partition, elementBytes }: ModelTensor): { rows: number; innerBytes: number } {
  let [rows, innerBytes] = [1, elementBytes];
  for (const [dimension, size] of shape.entries())
    if (partition === null || dimension > partition) innerBytes *= size;
    else if (dimension < partition) rows *= size;
  return { rows, innerBytes };
}

/** A slice of the tensor with this index, at a place in tensor parallelism; `null` where all places of a stage have it. */
interface Place {
  readonly index: number;
  readonly tp: number | null;
}

/** A slice before it is known who gives it: until then its offset is that in the tensor's shard. */
type OpenSlice = { -readonly [K in keyof Slice]: Slice[K] };

/** Who gives which slice to one rank: first those that one rank has, then the largest first from who gives least so far. */
class Giving {
  /** Of tensor parallelism. */
  readonly places: number;
  readonly #sources: Sources;
  readonly #rank: number;
  readonly #slices: OpenSlice[] = [];
  /** Those that several have. */
  readonly #open: { readonly slice: OpenSlice; readonly place: Place }[] = [];
  /** Bytes by rank. */
  readonly #given: Float64Array;

  constructor(sources: Sources, rank: number) {
    this.places = sources.layout.tp;
    this.#sources = sources;
    this.#rank = rank;
    this.#given = new Float64Array(ranksOf(sources.layout));
  }

  add(slice: OpenSlice, place: Place): void {
    this.#slices.push(slice);
    const { tp, dp } = this.#sources.layout;
    if (dp * (place.tp === null ? tp : 1) > 1) this.#open.push({ slice, place });
    else this.#give(slice, place, this.#firstOf(place));
  }

  /** All that were added, in that order. */
  slices(): readonly Slice[] {
    this.#open.sort((a, b) => b.slice.bytes * b.slice.count - a.slice.bytes * a.slice.count);
    for (const { slice, place } of this.#open.splice(0)) this.#give(slice, place, this.#leastOf(place));
    return this.#slices;
  }

  #give(slice: OpenSlice, { index }: Place, from: number): void {
    slice.from = from;
    slice.sourceOffset += this.#sources.offsetsOf(from % this.places)[index] ?? 0;
    this.#given[from] = (this.#given[from] ?? 0) + slice.bytes * slice.count;
  }

  #firstOf({ index, tp }: Place): number {
    return (tp ?? 0) + this.places * (this.#sources.stages[index] ?? 0);
  }

  /** The one that gave least; of several the first, counted from one that is another for each rank of the target. */
  #leastOf(place: Place): number {
    const { tp, pp, dp } = this.#sources.layout;
    const first = this.#firstOf(place);
    const neighbours = place.tp === null ? tp : 1;
    const count = neighbours * dp;
    let [best, least] = [first, Number.POSITIVE_INFINITY];
    for (let i = 0; i < count && least > 0; i++) {
      const nth = (this.#rank + i) % count;
      const holder = first + (nth % neighbours) + Math.floor(nth / neighbours) * tp * pp;
      const load = this.#given[holder] ?? 0;
      if (load < least) [best, least] = [holder, load];
    }
    return best;
  }
}
