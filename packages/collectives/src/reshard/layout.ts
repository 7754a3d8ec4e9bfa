/** How the tensors of a model are cut over the ranks of a replica: by tensor parallelism within a layer, by pipeline stages over layers. */
import { checkWhole } from "../check.ts";

/** Size of one kind of replica: `tp` ranks share each tensor, `pp` stages share the layers, `dp` copies exist of everything. */
export interface ParallelLayout {
  readonly tp: number;
  readonly pp: number;
  /** Copies of the whole model; 1 for a rollout replica. */
  readonly dp: number;
  /** Where each shard of a rank's section begins is a multiple of this many bytes. Default 64; 1 for sections without gaps. */
  readonly align?: number;
}

/** A tensor of the model as a whole. */
export interface ModelTensor {
  readonly name: string;
  readonly shape: readonly number[];
  /** Bytes of one element. */
  readonly elementBytes: number;
  /** Dimension that tensor parallelism cuts; `null` when every rank has the whole tensor, such as norms. */
  readonly partition: number | null;
  /** Layer it belongs to, which decides its stage; `first` and `last` for embeddings and heads. */
  readonly layer: number | "first" | "last";
}

/** One rank of a layout. Ranks are numbered with tp fastest, then pp, then dp. */
export interface RankPlace {
  readonly tp: number;
  readonly pp: number;
  readonly dp: number;
}

/** A part of a tensor that one rank has: elements `start` … `start + length` of the partitioned dimension. */
export interface Shard {
  readonly tensor: ModelTensor;
  readonly start: number;
  readonly length: number;
  /** Where it begins in the rank's section, in bytes. */
  readonly offset: number;
  readonly bytes: number;
}

/** Where each shard of a rank begins is a multiple of this, unless the layout says otherwise. */
const alignment = 64;

/** @returns Number of ranks. Pure. */
export function ranksOf({ tp, pp, dp }: ParallelLayout): number {
  return tp * pp * dp;
}

/** Where a rank is. Pure. */
export function placeOf(layout: ParallelLayout, rank: number): RankPlace {
  return {
    tp: rank % layout.tp,
    pp: Math.floor(rank / layout.tp) % layout.pp,
    dp: Math.floor(rank / (layout.tp * layout.pp)),
  };
}

/** The stage of each tensor: layers are dealt in order, the first stages get one more when they do not come out even. Pure. */
export function stagesOf(tensors: readonly ModelTensor[], { pp }: ParallelLayout): Int32Array {
  const layers = layersOf(tensors);
  const stages = new Int32Array(tensors.length);
  for (const [i, { layer }] of tensors.entries())
    if (layer === "last") stages[i] = pp - 1;
    else if (layer !== "first") stages[i] = ownerOf(layers, layer, pp);
  return stages;
}

/** The part of some elements that each of several ranks has: cut as evenly as it goes, the first ranks get one more. Pure. */
export function cutOf(size: number, rank: number, ranks: number): { readonly start: number; readonly length: number } {
  const [short, longer] = [Math.floor(size / ranks), size % ranks];
  return { start: rank * short + Math.min(rank, longer), length: short + (rank < longer ? 1 : 0) };
}

/** The rank in whose part of {@link cutOf} an element is. Pure. */
export function ownerOf(size: number, element: number, ranks: number): number {
  const [short, longer] = [Math.floor(size / ranks), size % ranks];
  const inLonger = longer * (short + 1);
  return element < inLonger ? Math.floor(element / (short + 1)) : longer + Math.floor((element - inLonger) / short);
}

/** What of a tensor the ranks of one place in tensor parallelism have. Pure. */
export function partOf(
  tensor: ModelTensor,
  layout: ParallelLayout,
  tp: number,
): { readonly start: number; readonly length: number; readonly bytes: number } {
  if (tensor.partition === null) return { start: 0, length: 1, bytes: bytesOf(tensor) };
  const size = tensor.shape[tensor.partition] ?? 1;
  const { start, length } = cutOf(size, tp, layout.tp);
  return { start, length, bytes: (bytesOf(tensor) / size) * length };
}

/** The sections of the ranks of one place in tensor parallelism, of all stages. */
interface Column {
  /** By tensor: where its part begins in the section of its stage, in bytes. */
  readonly offsets: Float64Array;
  /** By stage: length of its section, in bytes. */
  readonly ends: Float64Array;
}

/** Lays the parts of all tensors out, one after another in their order. `stages` is that of {@link stagesOf}. Pure. */
export function columnOf(
  tensors: readonly ModelTensor[],
  { layout, stages }: { readonly layout: ParallelLayout; readonly stages: Int32Array },
  tp: number,
): Column {
  const { align = alignment } = layout;
  const ends = new Float64Array(layout.pp);
  const offsets = new Float64Array(tensors.length);
  for (const [i, tensor] of tensors.entries()) {
    const stage = stages[i] ?? 0;
    const offset = Math.ceil((ends[stage] ?? 0) / align) * align;
    offsets[i] = offset;
    ends[stage] = offset + partOf(tensor, layout, tp).bytes;
  }
  return { offsets, ends };
}

/** Number of layers that the tensors name. Pure. */
function layersOf(tensors: readonly ModelTensor[]): number {
  return tensors.reduce((most, { layer }) => (typeof layer === "number" ? Math.max(most, layer + 1) : most), 0);
}

/**
 * The section of one rank: its shards one after another in the order of the tensors. Pure.
 *
 * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a layout or a tensor that makes no sense.
 */
export function shardsOf(tensors: readonly ModelTensor[], layout: ParallelLayout, rank: number): readonly Shard[] {
  checkModel(tensors, layout);
  checkRank(layout, rank);
  const { tp, pp } = placeOf(layout, rank);
  const stages = stagesOf(tensors, layout);
  const { offsets } = columnOf(tensors, { layout, stages }, tp);
  const shards: Shard[] = [];
  for (const [i, tensor] of tensors.entries())
    if (stages[i] === pp) shards.push({ tensor, ...partOf(tensor, layout, tp), offset: offsets[i] ?? 0 });
  return shards;
}

/**
 * Length of the section of each rank, in bytes. Pure.
 *
 * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a layout or a tensor that makes no sense.
 */
export function sectionSizes(tensors: readonly ModelTensor[], layout: ParallelLayout): readonly number[] {
  checkModel(tensors, layout);
  const stages = stagesOf(tensors, layout);
  const columns = Array.from({ length: layout.tp }, (_, tp) => columnOf(tensors, { layout, stages }, tp));
  return Array.from({ length: ranksOf(layout) }, (_, rank) => {
    const { tp, pp } = placeOf(layout, rank);
    return columns[tp]?.ends[pp] ?? 0;
  });
}

function bytesOf({ shape, elementBytes }: ModelTensor): number {
  let bytes = elementBytes;
  for (const size of shape) bytes *= size;
  return bytes;
}

/** @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a rank that the layout has not. */
export function checkRank(layout: ParallelLayout, rank: number): void {
  checkWhole("rank", rank, { min: 0, max: ranksOf(layout) - 1 });
}

/** @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a layout or a tensor that makes no sense. */
export function checkModel(tensors: readonly ModelTensor[], layout: ParallelLayout): void {
  for (const [field, value] of Object.entries(layout)) checkWhole(`layout.${field}`, value, { min: 1, max: 65_536 });
  const layers = layersOf(tensors);
  if (layers > 0) checkWhole("layout.pp", layout.pp, { min: 1, max: layers });
  for (const { name, shape, partition, elementBytes } of tensors) {
    checkWhole(() => `${name}.elementBytes`, elementBytes, { min: 1, max: 16 });
    for (const size of shape) checkWhole(() => `${name}.shape`, size, { min: 1, max: 2 ** 40 });
    if (partition !== null) checkWhole(() => `${name}.partition`, partition, { min: 0, max: shape.length - 1 });
  }
}
