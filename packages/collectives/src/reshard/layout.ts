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
function placeOf(layout: ParallelLayout, rank: number): RankPlace {
  return {
    tp: rank % layout.tp,
    pp: Math.floor(rank / layout.tp) % layout.pp,
    dp: Math.floor(rank / (layout.tp * layout.pp)),
  };
}

/**
 * The stage of a layer: layers are dealt in order, the first stages get one more when they do not come out even. Pure.
 *
 * @throws MUSTER_ERR_NATIVE_OPTION_INVALID when there are more stages than layers.
 */
function stageOf(layer: ModelTensor["layer"], layers: number, stages: number): number {
  if (layer === "first") return 0;
  if (layer === "last") return stages - 1;
  const [short, longer] = [Math.floor(layers / stages), layers % stages];
  const inLonger = longer * (short + 1);
  return layer < inLonger ? Math.floor(layer / (short + 1)) : longer + Math.floor((layer - inLonger) / short);
}

/**
 * The elements of a dimension that a tensor-parallel rank has: cut as evenly as it goes, the first ranks get one more. Pure.
 */
function cutOf(size: number, rank: number, ranks: number): { readonly start: number; readonly length: number } {
  const [short, longer] = [Math.floor(size / ranks), size % ranks];
  return { start: rank * short + Math.min(rank, longer), length: short + (rank < longer ? 1 : 0) };
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
  checkWhole("rank", rank, { min: 0, max: ranksOf(layout) - 1 });
  const layers = layersOf(tensors);
  const place = placeOf(layout, rank);
  const { align = alignment } = layout;
  const shards: Shard[] = [];
  let end = 0;
  for (const tensor of tensors) {
    if (stageOf(tensor.layer, layers, layout.pp) !== place.pp) continue;
    const size = tensor.partition === null ? 1 : (tensor.shape[tensor.partition] ?? 1);
    const { start, length } = tensor.partition === null ? { start: 0, length: 1 } : cutOf(size, place.tp, layout.tp);
    const offset = Math.ceil(end / align) * align;
    const bytes = (bytesOf(tensor) / Math.max(size, 1)) * length;
    shards.push({ tensor, start, length, offset, bytes });
    end = offset + bytes;
  }
  return shards;
}

/** Bytes of a rank's section. Pure. */
export function sectionBytes(shards: readonly Shard[]): number {
  const last = shards.at(-1);
  return last ? last.offset + last.bytes : 0;
}

function bytesOf({ shape, elementBytes }: ModelTensor): number {
  return shape.reduce((product, size) => product * size, elementBytes);
}

/** @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a layout or a tensor that makes no sense. */
export function checkModel(tensors: readonly ModelTensor[], layout: ParallelLayout): void {
  for (const [field, value] of Object.entries(layout)) checkWhole(`layout.${field}`, value, { min: 1, max: 65_536 });
  const layers = layersOf(tensors);
  if (layers > 0) checkWhole("layout.pp", layout.pp, { min: 1, max: layers });
  for (const { name, shape, partition, elementBytes } of tensors) {
    checkWhole(`${name}.elementBytes`, elementBytes, { min: 1, max: 16 });
    for (const size of shape) checkWhole(`${name}.shape`, size, { min: 1, max: 2 ** 40 });
    if (partition !== null) checkWhole(`${name}.partition`, partition, { min: 0, max: shape.length - 1 });
  }
}
