/** Who takes which bytes from whom when a model that is cut one way is wanted cut another way. */
import {
  checkModel,
  type ModelTensor,
  type ParallelLayout,
  ranksOf,
  type Shard,
  sectionBytes,
  shardsOf,
} from "./layout.ts";

/** Rows of bytes of one source rank's section, and where they go in the section of the receiving rank. */
export interface Slice {
  /** Name of the tensor. */
  readonly tensor: string;
  /** Rank that has the bytes. */
  readonly from: number;
  readonly sourceOffset: number;
  readonly sourceStride: number;
  readonly targetOffset: number;
  readonly targetStride: number;
  /** Bytes of one row. */
  readonly bytes: number;
  /** Number of rows. */
  readonly count: number;
}

/** What one rank takes. */
export interface RankPlan {
  readonly rank: number;
  /** Length of its section. */
  readonly sectionBytes: number;
  readonly slices: readonly Slice[];
}

/** A slice that any of some ranks can give. */
interface Piece extends Omit<Slice, "from" | "sourceOffset"> {
  readonly to: number;
  readonly candidates: readonly Pick<Slice, "from" | "sourceOffset">[];
}

interface Source {
  readonly rank: number;
  readonly shard: Shard;
}

/**
 * Plans the way from one layout to another. Every rank gets each byte of its section once, from a rank that has it; where several have it (data-
 * parallel copies, tensors that are not cut) the one that gives least so far. Pure.
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
  const targets = Array.from({ length: ranksOf(to) }, (_, rank) => ({ rank, shards: shardsOf(tensors, to, rank) }));
  const pieces = targets.flatMap(({ rank, shards }) =>
    shards.flatMap((shard) => piecesOf(sources.get(shard.tensor) ?? [], shard, rank)),
  );
  const slices = balanced(pieces, ranksOf(from));
  return targets.map(({ rank, shards }) => ({
    rank,
    sectionBytes: sectionBytes(shards),
    slices: slices.filter(({ to: target }) => target === rank).map(({ to: _, ...slice }) => slice),
  }));
}

function sourcesOf(tensors: readonly ModelTensor[], layout: ParallelLayout): ReadonlyMap<ModelTensor, Source[]> {
  const sources = new Map<ModelTensor, Source[]>();
  for (let rank = 0; rank < ranksOf(layout); rank++)
    for (const shard of shardsOf(tensors, layout, rank))
      sources.set(shard.tensor, [...(sources.get(shard.tensor) ?? []), { rank, shard }]);
  return sources;
}

/** The parts of a shard, each with the ranks that have it, and where. */
function piecesOf(sources: readonly Source[], target: Shard, to: number): Piece[] {
  const parts = new Map<number, Source[]>();
  for (const source of sources) {
    const { start, length } = source.shard;
    if (length > 0) parts.set(start, [...(parts.get(start) ?? []), source]);
  }
  return [...parts.values()].flatMap((holders): Piece[] => {
    const [{ shard } = { shard: target }] = holders;
    const begin = Math.max(shard.start, target.start);
    const end = Math.min(shard.start + shard.length, target.start + target.length);
    if (begin >= end) return [];
    const { rows, innerBytes } = rowsOf(target.tensor);
    const [sourceStride, targetStride] = [shard.length * innerBytes, target.length * innerBytes];
    const bytes = (end - begin) * innerBytes;
    const isWhole = bytes === sourceStride && bytes === targetStride;
    return [
      {
        tensor: target.tensor.name,
        targetOffset: target.offset + (begin - target.start) * innerBytes,
        ...(isWhole
          ? { sourceStride: bytes * rows, targetStride: bytes * rows, bytes: bytes * rows, count: 1 }
          : { sourceStride, targetStride, bytes, count: rows }),
        to,
        candidates: holders.map(({ rank, shard: { offset } }) => ({
          from: rank,
          sourceOffset: offset + (begin - shard.start) * innerBytes,
        })),
      },
    ];
  });
}

/** A tensor as rows along the dimensions before the one that is cut, and the bytes behind one element of that one. */
function rowsOf({ shape, partition, elementBytes }: ModelTensor): { rows: number; innerBytes: number } {
  const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);
  if (partition === null) return { rows: 1, innerBytes: product(shape) * elementBytes };
  return { rows: product(shape.slice(0, partition)), innerBytes: product(shape.slice(partition + 1)) * elementBytes };
}

/** Gives each piece, the largest first, to the candidate that gives least so far. Ties go to the lowest rank. */
function balanced(pieces: readonly Piece[], ranks: number): readonly (Slice & { readonly to: number })[] {
  const given = new Array<number>(ranks).fill(0);
  const load = (rank: number): number => given[rank] ?? 0;
  const order = pieces.map((piece, index) => ({ piece, index, size: piece.bytes * piece.count }));
  order.sort((a, b) => b.size - a.size || a.index - b.index);
  const chosen = new Map<number, Piece["candidates"][number]>();
  for (const { piece, index, size } of order) {
    const [first, ...others] = piece.candidates;
    if (!first) continue;
    const best = others.reduce((least, each) => (load(each.from) < load(least.from) ? each : least), first);
    given[best.from] = load(best.from) + size;
    chosen.set(index, best);
  }
  return pieces.flatMap(({ candidates: _, ...piece }, index) => {
    const source = chosen.get(index);
    return source ? [{ ...piece, ...source }] : [];
  });
}
