/** The naive way to plan from one layout of tp, pp and dp to another: every shard of every rank is compared with every other. */
import type { ModelTensor, ParallelLayout, RankPlan, Shard, Slice } from "../../src/index.ts";

const product = (sizes: readonly number[]): number => sizes.reduce((all, size) => all * size, 1);

const rankCount = ({ tp, pp, dp }: ParallelLayout): number => tp * pp * dp;

/** Some things dealt in order, the first get one more: the things of each. */
function dealt(count: number, to: number): number[][] {
  let next = 0;
  return Array.from({ length: to }, (_, i) => {
    const own = Math.floor(count / to) + (i < count % to ? 1 : 0);
    return Array.from({ length: own }, () => next++);
  });
}

/** The section of one rank, and what it has of each tensor. */
function sectionOf(tensors: readonly ModelTensor[], layout: ParallelLayout, rank: number) {
  const { tp, pp, align = 64 } = layout;
  const [column, stage] = [rank % tp, Math.floor(rank / tp) % pp];
  const layers = Math.max(0, ...tensors.map(({ layer }) => (typeof layer === "number" ? layer + 1 : 0)));
  const own = dealt(layers, pp)[stage] ?? [];
  const has = ({ layer }: ModelTensor): boolean =>
    typeof layer === "number" ? own.includes(layer) : stage === (layer === "first" ? 0 : pp - 1);
  const shards: Shard[] = [];
  let end = 0;
  for (const tensor of tensors.filter(has)) {
    const { shape, partition, elementBytes } = tensor;
    const size = partition === null ? 1 : (shape[partition] ?? 1);
    const elements = partition === null ? [0] : (dealt(size, tp)[column] ?? []);
    const before = partition === null ? 0 : dealt(size, tp).slice(0, column).flat().length;
    while (end % align !== 0) end += 1;
    const bytes = (product(shape) / size) * elements.length * elementBytes;
    shards.push({ tensor, start: before, length: elements.length, offset: end, bytes });
    end += bytes;
  }
  return { shards, bytes: end };
}

/** Rows of one tensor that a rank wants, and who has them. */
interface SliceChoice {
  readonly slice: Omit<Slice, "from" | "sourceOffset">;
  readonly candidates: readonly Pick<Slice, "from" | "sourceOffset">[];
}

/** As `planRank`. */
export function planNaively(
  tensors: readonly ModelTensor[],
  [from, to]: readonly [ParallelLayout, ParallelLayout],
  rank: number,
): RankPlan {
  const sources = Array.from({ length: rankCount(from) }, (_, source) =>
    sectionOf(tensors, from, source).shards.map((shard) => ({ source, shard })),
  ).flat();
  const target = sectionOf(tensors, to, rank);
  const wanted = target.shards.flatMap((shard) => {
    const having = sources.filter((one) => one.shard.tensor === shard.tensor && one.shard.length > 0);
    const starts = [...new Set(having.map((one) => one.shard.start))].sort((a, b) => a - b);
    return starts.flatMap((start) =>
      wantedOf(
        shard,
        having.filter((one) => one.shard.start === start),
      ),
    );
  });
  return { rank, sectionBytes: target.bytes, slices: choose(wanted, rank) };
}

function wantedOf(
  target: Shard,
  holders: readonly { readonly source: number; readonly shard: Shard }[],
): readonly SliceChoice[] {
  const [first] = holders;
  if (!first) return [];
  const { shape, partition, elementBytes, name } = target.tensor;
  const begin = Math.max(first.shard.start, target.start);
  const end = Math.min(first.shard.start + first.shard.length, target.start + target.length);
  if (begin >= end) return [];
  const rows = partition === null ? 1 : product(shape.slice(0, partition));
  const inner = product(shape.slice(partition === null ? 0 : partition + 1)) * elementBytes;
  const [sourceStride, targetStride, bytes] = [
    first.shard.length * inner,
    target.length * inner,
    (end - begin) * inner,
  ];
  const isWhole = bytes === sourceStride && bytes === targetStride;
  const all = bytes * rows;
  const isOne = isWhole || rows === 1;
  const slice = {
    tensor: name,
    targetOffset: target.offset + (begin - target.start) * inner,
    ...(isOne
      ? { sourceStride: all, targetStride: all, bytes: all, count: 1 }
      : { sourceStride, targetStride, bytes, count: rows }),
  };
  const candidates = holders.map(({ source, shard }) => ({
    from: source,
    sourceOffset: shard.offset + (begin - shard.start) * inner,
  }));
  return [{ slice, candidates }];
}

/** Those without a choice first, then the largest first, each from who gives least so far; ties from another one for each rank. */
function choose(wanted: readonly SliceChoice[], rank: number): readonly Slice[] {
  const given: Record<number, number> = {};
  const sizeOf = ({ slice }: SliceChoice): number => slice.bytes * slice.count;
  const isOpen = ({ candidates }: SliceChoice): number => (candidates.length > 1 ? 1 : 0);
  const chosen = new Map<SliceChoice, Slice>();
  for (const one of [...wanted].sort((a, b) => isOpen(a) - isOpen(b) || sizeOf(b) - sizeOf(a))) {
    const at = rank % one.candidates.length;
    const turned = [...one.candidates.slice(at), ...one.candidates.slice(0, at)];
    const least = Math.min(...turned.map(({ from }) => given[from] ?? 0));
    const best = turned.find(({ from }) => (given[from] ?? 0) === least);
    if (!best) continue;
    given[best.from] = least + sizeOf(one);
    chosen.set(one, { ...one.slice, ...best });
  }
  return wanted.flatMap((one) => chosen.get(one) ?? []);
}
