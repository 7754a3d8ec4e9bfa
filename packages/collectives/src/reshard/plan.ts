/** Who takes which bytes from whom when a model that is cut one way is wanted cut another way. */
import type { StridedRows } from "@muster/base";
import { errors } from "../errors.ts";
import { type Box, common, rowsOfBox } from "./boxes.ts";
import {
  boxesOf,
  checkModel,
  checkRank,
  columnOf,
  columnsOf,
  fsdpPlacesOf,
  type ModelTensor,
  ownerOf,
  type ParallelLayout,
  type Piece,
  pieceOf,
  placementOf,
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
 * @param tensors As they are wanted.
 * @param layouts The one that the model is cut by, and the one that it is wanted in.
 * @param sources The same tensors as they are cut: the dimension and the layer may be others.
 * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for layouts, tensors or a rank that make no sense.
 */
export function planRank(
  tensors: readonly ModelTensor[],
  layouts: Layouts,
  rank: number,
  sources: readonly ModelTensor[] = tensors,
): RankPlan {
  checkModel(sources, layouts[0]);
  checkModel(tensors, layouts[1]);
  checkSame(sources, tensors);
  checkRank(layouts[1], rank);
  return planWith(sourcesOf(sources, layouts[0]), { tensors, layout: layouts[1] }, rank);
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
  for (const layout of [from, to]) checkModel(tensors, layout);
  const sources = sourcesOf(tensors, from);
  return Array.from({ length: ranksOf(to) }, (_, rank) => planWith(sources, { tensors, layout: to }, rank));
}

/** @throws MUSTER_ERR_NATIVE_OPTION_INVALID for tables of which one has what the other has not. */
function checkSame(sources: readonly ModelTensor[], tensors: readonly ModelTensor[]): void {
  if (sources === tensors) return;
  const rowOf = (tensor?: ModelTensor) => tensor && `${tensor.name} [${tensor.shape}] of ${tensor.elementBytes} bytes`;
  for (let i = 0; i < Math.max(sources.length, tensors.length); i++) {
    const [source, target] = [rowOf(sources[i]), rowOf(tensors[i])];
    if (source === target) continue;
    throw errors.NativeOptionInvalid({
      field: `sources.${i}`,
      value: source ?? "missing",
      fix: `give ${target ?? "no more"}`,
    });
  }
}

/** Tensors, and how they are cut. */
interface Cut {
  readonly tensors: readonly ModelTensor[];
  readonly layout: ParallelLayout;
}

interface Sources extends Cut {
  /** By tensor. */
  readonly stages: Int32Array;
  /** By tensor, where it begins in the section of the ranks at this place of those that share a stage. */
  offsetsOf(column: number): Float64Array;
}

function sourcesOf(tensors: readonly ModelTensor[], layout: ParallelLayout): Sources {
  const known = new Map<number, Float64Array>();
  const stages = stagesOf(tensors, layout);
  const offsetsOf = (column: number): Float64Array => {
    const offsets = known.get(column) ?? columnOf(tensors, { layout, stages }, column).offsets;
    known.set(column, offsets);
    return offsets;
  };
  return { tensors, layout, stages, offsetsOf };
}

function planWith(sources: Sources, { tensors, layout }: Cut, rank: number): RankPlan {
  const place = placeOf(layout, rank);
  const stages = stagesOf(tensors, layout);
  const { offsets, ends } = columnOf(tensors, { layout, stages }, rank % columnsOf(layout));
  const giving = new Giving(sources, rank);
  for (const [index, tensor] of sources.tensors.entries()) {
    const wanted = tensors[index];
    if (!wanted || stages[index] !== place.pp) continue;
    const piece = pieceOf(wanted, layout, place);
    if (piece.bytes > 0)
      takePiece(giving, { tensor, layout: sources.layout }, { index, offset: offsets[index] ?? 0, piece });
  }
  return { rank, sectionBytes: ends[place.pp] ?? 0, slices: giving.slices() };
}

/** What is wanted of the tensor with this index, and where in the section. */
interface Target {
  readonly index: number;
  readonly offset: number;
  readonly piece: Piece;
}

/** Takes a piece in parts, each from one of the ranks that share the tensor. */
function takePiece(
  giving: Giving,
  { tensor, layout }: { readonly tensor: ModelTensor; readonly layout: ParallelLayout },
  { index, offset, piece }: Target,
): void {
  const { name, elementBytes } = tensor;
  const target = placementOf(piece, elementBytes, offset);
  for (const box of boxesOf(piece))
    for (const place of sharersOf(tensor, layout, box)) {
      const source = pieceOf(tensor, layout, { tp: place.tp ?? 0, fsdp: place.fsdp });
      const placement = placementOf(source, elementBytes, 0);
      for (const own of boxesOf(source)) {
        const both = common(own, box);
        if (!both) continue;
        for (const rows of rowsOfBox(both, placement, target, elementBytes))
          giving.add({ tensor: name, from: 0, ...rows }, { index, ...place });
      }
    }
}

/** Places of those ranks that may have something of a box. `tp` is `null` where all places of tensor parallelism have the same. Pure. */
function* sharersOf(tensor: ModelTensor, layout: ParallelLayout, box: Box): Generator<Omit<Place, "index">> {
  const { partition, shape } = tensor;
  const whole = { ...layout, fsdp: 1 };
  const [size, start, length] =
    partition === null ? [1, 0, 1] : [shape[partition] ?? 1, box.starts[partition] ?? 0, box.lengths[partition] ?? 1];
  const last = partition === null ? 0 : ownerOf(size, start + length - 1, layout.tp);
  for (let tp = partition === null ? 0 : ownerOf(size, start, layout.tp); tp <= last; tp++) {
    const part = pieceOf(tensor, whole, { tp, fsdp: 0 }).box;
    const both = common(part, box);
    if (!both) continue;
    const { first, last } = fsdpPlacesOf(layout, part, both);
    for (let fsdp = first; fsdp <= last; fsdp++) yield { tp: partition === null ? null : tp, fsdp };
  }
}

/** Where a slice of the tensor with this index is: a place in tensor parallelism (`null`: all places have it), and one in FSDP. */
interface Place {
  readonly index: number;
  readonly tp: number | null;
  readonly fsdp: number;
}

/** A slice before it is known who gives it: until then its offset is that in the tensor's shard. */
type OpenSlice = { -readonly [K in keyof Slice]: Slice[K] };

/** Who gives which slice to one rank: first those that one rank has, then the largest first from who gives least so far. */
class Giving {
  readonly #sources: Sources;
  readonly #rank: number;
  /** Ranks that share the tensors of a stage. */
  readonly #columns: number;
  readonly #slices: OpenSlice[] = [];
  /** Those that several have. */
  readonly #open: { readonly slice: OpenSlice; readonly place: Place }[] = [];
  /** Bytes by rank. */
  readonly #given: Float64Array;

  constructor(sources: Sources, rank: number) {
    this.#sources = sources;
    this.#rank = rank;
    this.#columns = columnsOf(sources.layout);
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
    slice.sourceOffset += this.#sources.offsetsOf(from % this.#columns)[index] ?? 0;
    this.#given[from] = (this.#given[from] ?? 0) + slice.bytes * slice.count;
  }

  #firstOf({ index, tp, fsdp }: Place): number {
    return (tp ?? 0) + this.#sources.layout.tp * fsdp + this.#columns * (this.#sources.stages[index] ?? 0);
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
      const holder = first + (nth % neighbours) + Math.floor(nth / neighbours) * this.#columns * pp;
      const load = this.#given[holder] ?? 0;
      if (load < least) [best, least] = [holder, load];
    }
    return best;
  }
}
