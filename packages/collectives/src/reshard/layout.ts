/** How the tensors of a model are cut over the ranks of a replica: by tensor parallelism, by FSDP within what that leaves, by pipeline stages over layers. */
import { checkWhole } from "../check.ts";
import { errors } from "../errors.ts";
import { type Box, boxesOfRange, type Placement, product, stridesOf } from "./boxes.ts";

/** How FSDP cuts what tensor parallelism leaves of a tensor over its ranks; the last ones have less, or nothing. */
export const fsdpCuts = ["rows", "flat"] as const;
export type FsdpCut = (typeof fsdpCuts)[number];

/** Size of one kind of replica: `tp` ranks share each tensor, `fsdp` ranks what one of these has, `pp` stages the layers; `dp` copies exist of everything. */
export interface ParallelLayout {
  readonly tp: number;
  readonly pp: number;
  /** Copies of the whole model. */
  readonly dp: number;
  /** Ranks that share what one place of tensor parallelism has of each tensor. Default 1. */
  readonly fsdp?: number;
  /**
   * `rows` (default): dimension 0 in pieces of ⌈rows / fsdp⌉, as `fully_shard` of PyTorch (FSDP2) and `torch.chunk` cut it. `flat`: the elements one behind the
   * other in pieces of ⌈elements / fsdp⌉, as ZeRO 3 of DeepSpeed cuts each parameter. What these pad with is not there.
   */
  readonly fsdpCut?: FsdpCut;
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

/** One rank of a layout. Ranks are numbered with tp fastest, then fsdp, then pp, then dp. */
export interface RankPlace {
  readonly tp: number;
  readonly fsdp: number;
  readonly pp: number;
  readonly dp: number;
}

/** A part of a tensor that one rank has: elements `start` … `start + length` of the partitioned dimension; of one that is not cut, 0 and 1. */
export interface Shard {
  readonly tensor: ModelTensor;
  readonly start: number;
  readonly length: number;
  /** Where FSDP cuts rows: those that the rank has, of dimension 0 of the whole tensor. */
  readonly rows?: { readonly start: number; readonly length: number };
  /** Where FSDP cuts flat: the elements that the rank has of those that `start` and `length` leave, counted row-major. */
  readonly flat?: { readonly start: number; readonly length: number };
  /** Where it begins in the rank's section, in bytes. */
  readonly offset: number;
  readonly bytes: number;
}

/** Where each shard of a rank begins is a multiple of this, unless the layout says otherwise. */
const alignment = 64;

/** @returns Number of ranks. Pure. */
export function ranksOf(layout: ParallelLayout): number {
  return columnsOf(layout) * layout.pp * layout.dp;
}

/** Ranks that share the tensors of a stage. Pure. */
export function columnsOf({ tp, fsdp = 1 }: ParallelLayout): number {
  return tp * fsdp;
}

/** Where a rank is. Pure. */
export function placeOf(layout: ParallelLayout, rank: number): RankPlace {
  const { tp, pp } = layout;
  const columns = columnsOf(layout);
  return {
    tp: rank % tp,
    fsdp: Math.floor((rank % columns) / tp),
    pp: Math.floor(rank / columns) % pp,
    dp: Math.floor(rank / (columns * pp)),
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
function cutOf(size: number, rank: number, ranks: number): { readonly start: number; readonly length: number } {
  const [short, longer] = [Math.floor(size / ranks), size % ranks];
  return { start: rank * short + Math.min(rank, longer), length: short + (rank < longer ? 1 : 0) };
}

/** The rank in whose part of {@link cutOf} an element is. Pure. */
export function ownerOf(size: number, element: number, ranks: number): number {
  const [short, longer] = [Math.floor(size / ranks), size % ranks];
  const inLonger = longer * (short + 1);
  return element < inLonger ? Math.floor(element / (short + 1)) : longer + Math.floor((element - inLonger) / short);
}

/** What one rank of those that share a tensor has of it. */
export interface Piece extends Pick<Shard, "start" | "length" | "rows" | "flat" | "bytes"> {
  /** What tensor parallelism leaves, and FSDP by rows. */
  readonly box: Box;
}

/** What of a tensor the ranks of one place have. Pure. */
export function pieceOf(
  tensor: ModelTensor,
  layout: ParallelLayout,
  { tp, fsdp }: Pick<RankPlace, "tp" | "fsdp">,
): Piece {
  const { shape, partition, elementBytes } = tensor;
  const starts = shape.map(() => 0);
  const lengths = [...shape];
  let [start, length] = [0, 1];
  if (partition !== null) {
    ({ start, length } = cutOf(shape[partition] ?? 1, tp, layout.tp));
    [starts[partition], lengths[partition]] = [start, length];
  }
  const { fsdp: ranks = 1, fsdpCut = "rows" } = layout;
  if (ranks === 1) return { start, length, box: { starts, lengths }, bytes: product(lengths) * elementBytes };
  const cut = chunkOf(fsdpCut === "flat" ? product(lengths) : (lengths[0] ?? 1), fsdp, ranks);
  if (fsdpCut === "flat")
    return { start, length, flat: cut, box: { starts, lengths }, bytes: cut.length * elementBytes };
  const rows = { start: (starts[0] ?? 0) + cut.start, length: cut.length };
  [starts[0], lengths[0]] = [rows.start, rows.length];
  if (partition === 0) [start, length] = [rows.start, rows.length];
  return { start, length, rows, box: { starts, lengths }, bytes: product(lengths) * elementBytes };
}

/** Bytes of {@link pieceOf}, without making it: of all tensors for every rank that gives. Pure. */
function pieceBytes({ shape, partition, elementBytes }: ModelTensor, layout: ParallelLayout, place: RankPlace): number {
  const { fsdp = 1, fsdpCut = "rows" } = layout;
  const all = product(shape);
  const size = partition === null ? 1 : (shape[partition] ?? 1);
  const { length } = cutOf(size, partition === null ? 0 : place.tp, partition === null ? 1 : layout.tp);
  const part = (all / size) * length;
  if (fsdp === 1 || part === 0) return part * elementBytes;
  if (fsdpCut === "flat") return chunkOf(part, place.fsdp, fsdp).length * elementBytes;
  const rows = partition === 0 ? length : (shape[0] ?? 1);
  return (part / rows) * chunkOf(rows, place.fsdp, fsdp).length * elementBytes;
}

/** Which elements a piece is, as boxes of the whole tensor. Pure. */
export function boxesOf({ box, flat }: Piece): readonly Box[] {
  if (!flat) return [box];
  return [...boxesOfRange(box, flat.start, flat.start + flat.length)];
}

/** Where the elements of a piece lie that begins at `offset` of a section. Pure. */
export function placementOf({ box, flat }: Piece, elementBytes: number, offset: number): Placement {
  const strides = stridesOf(box.lengths, elementBytes);
  const before = box.starts.reduce((sum, start, dimension) => sum + start * (strides[dimension] ?? 0), 0);
  return { strides, origin: offset - before - (flat?.start ?? 0) * elementBytes };
}

/** First and last place in FSDP of those that may have something of a box within what one place of tensor parallelism has. Pure. */
export function fsdpPlacesOf(
  { fsdp = 1, fsdpCut = "rows" }: ParallelLayout,
  part: Box,
  box: Box,
): { readonly first: number; readonly last: number } {
  const rows = box.starts.map((start, dimension) => start - (part.starts[dimension] ?? 0));
  const ends = rows.map((start, dimension) => start + (box.lengths[dimension] ?? 1) - 1);
  const steps = fsdpCut === "flat" ? stridesOf(part.lengths, 1) : [1];
  const numberOf = (element: readonly number[]): number =>
    steps.reduce((sum, step, i) => sum + step * (element[i] ?? 0), 0);
  const chunk = Math.ceil((fsdpCut === "flat" ? product(part.lengths) : (part.lengths[0] ?? 1)) / fsdp);
  return { first: Math.floor(numberOf(rows) / chunk), last: Math.floor(numberOf(ends) / chunk) };
}

/** As `torch.chunk`: pieces of equal length, of which the last ones have less, or nothing. Pure. */
function chunkOf(size: number, rank: number, ranks: number): { readonly start: number; readonly length: number } {
  const chunk = Math.ceil(size / ranks);
  const start = Math.min(rank * chunk, size);
  return { start, length: Math.min(chunk, size - start) };
}

/** The sections of the ranks of one place in tensor parallelism and FSDP, of all stages. */
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
  column: number,
): Column {
  const { align = alignment } = layout;
  const ends = new Float64Array(layout.pp);
  const offsets = new Float64Array(tensors.length);
  const place = placeOf(layout, column);
  for (const [i, tensor] of tensors.entries()) {
    const stage = stages[i] ?? 0;
    const offset = Math.ceil((ends[stage] ?? 0) / align) * align;
    offsets[i] = offset;
    ends[stage] = offset + pieceBytes(tensor, layout, place);
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
  const place = placeOf(layout, rank);
  const stages = stagesOf(tensors, layout);
  const { offsets } = columnOf(tensors, { layout, stages }, rank % columnsOf(layout));
  const shards: Shard[] = [];
  for (const [i, tensor] of tensors.entries()) {
    if (stages[i] !== place.pp) continue;
    const { box: _, ...part } = pieceOf(tensor, layout, place);
    shards.push({ tensor, ...part, offset: offsets[i] ?? 0 });
  }
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
  const columns = Array.from({ length: columnsOf(layout) }, (_, column) =>
    columnOf(tensors, { layout, stages }, column),
  );
  return Array.from({ length: ranksOf(layout) }, (_, rank) => {
    return columns[rank % columns.length]?.ends[placeOf(layout, rank).pp] ?? 0;
  });
}

/** @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a rank that the layout has not. */
export function checkRank(layout: ParallelLayout, rank: number): void {
  checkWhole("rank", rank, { min: 0, max: ranksOf(layout) - 1 });
}

/** @throws MUSTER_ERR_NATIVE_OPTION_INVALID for a layout or a tensor that makes no sense. */
export function checkModel(tensors: readonly ModelTensor[], layout: ParallelLayout): void {
  const { fsdpCut = "rows", ...sizes } = layout;
  for (const [field, value] of Object.entries(sizes)) checkWhole(`layout.${field}`, value, { min: 1, max: 65_536 });
  if (!fsdpCuts.includes(fsdpCut))
    throw errors.NativeOptionInvalid({
      field: "layout.fsdpCut",
      value: fsdpCut,
      fix: `give one of ${fsdpCuts.join(", ")}`,
    });
  const layers = layersOf(tensors);
  if (layers > 0) checkWhole("layout.pp", layout.pp, { min: 1, max: layers });
  for (const { name, shape, partition, elementBytes } of tensors) {
    checkWhole(() => `${name}.elementBytes`, elementBytes, { min: 1, max: 16 });
    for (const size of shape) checkWhole(() => `${name}.shape`, size, { min: 1, max: 2 ** 40 });
    if (partition !== null) checkWhole(() => `${name}.partition`, partition, { min: 0, max: shape.length - 1 });
    if ((layout.fsdp ?? 1) > 1) checkWhole(() => `dimensions of ${name}`, shape.length, { min: 1, max: 64 });
  }
}
