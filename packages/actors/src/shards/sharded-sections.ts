/** Sections that no process has all of: rank r of each trainer serves shard r. The list of the shards has the digest that was voted on, so it is read first. */

import { invariant } from "@muster/base";
import {
  type ParallelLayout,
  planRank,
  type RankPlan,
  ranksOf,
  type ShardSource,
  sectionSizes,
} from "@muster/collectives";
import type { RankCut } from "@muster/engine";
import { partOf, type Section } from "@muster/protocol";
import { errors } from "../errors.ts";
import type { Ports } from "../ports.ts";
import {
  digestOfList,
  listText,
  type RankAddresses,
  readRanks,
  readShards,
  type Shard,
  type TextReader,
} from "./rank-texts.ts";

/** A model in one process, as checkpoints and samplers of one process have it: its tensors one behind the other. */
export const wholeLayout: ParallelLayout = { tp: 1, pp: 1, dp: 1, align: 1 };

/** The layout of processes that share a model. Pure. */
export const layoutOf = ({ tp, pp, dp = 1, fsdp = 1, fsdpCut = "rows" }: Omit<RankCut, "tensors">): ParallelLayout => {
  return { tp, pp, dp, fsdp, fsdpCut };
};

/** Number of processes. Pure. */
export const sizeOf = (cut: RankCut): number => ranksOf(layoutOf(cut));

/** The ranks that have the same part of the weights as one, which comes first. Pure. */
function copiesOf(cut: RankCut, rank: number): readonly number[] {
  const { dp = 1 } = cut;
  const size = sizeOf(cut);
  return Array.from({ length: dp }, (_, copy) => (rank + (copy * size) / dp) % size);
}

/** Size of the part of each rank. Pure. */
export function partBytesOf(cut: RankCut): readonly number[] {
  return sectionSizes(cut.tensors, layoutOf(cut));
}

/** Size of the model in one process. Pure. */
export const wholeBytesOf = (cut: RankCut): number => sectionSizes(cut.tensors, wholeLayout)[0] ?? 0;

/** A section, and the list of its shards that lies on the data plane in its place. */
export interface ListedSection {
  readonly section: Section;
  readonly list: Uint8Array;
}

/** Names a section by its shards. */
export async function sectionOfShards(
  ports: Pick<Ports, "digests">,
  { name, bytes, shards }: Pick<Section, "name" | "bytes"> & { readonly shards: readonly Shard[] },
  signal: AbortSignal,
): Promise<ListedSection> {
  const list = listText({ name, bytes }, shards);
  const [digest = ""] = await ports.digests([list], signal);
  const of = { of: shards.length, bytes: list.length };
  return { section: { name, bytes, digest: digestOfList(digest), shards: of }, list };
}

/** What several ranks have must be the same: readers take it from any of them. @throws MUSTER_ERR_SHARDS_DIFFER naming two that differ */
export function checkCopies(cut: RankCut, shards: readonly { readonly digest: string }[]): void {
  for (const [rank, { digest }] of shards.entries()) {
    const first = Math.min(...copiesOf(cut, rank));
    const other = shards[first]?.digest;
    if (other === digest) continue;
    const reason = `rank ${rank} has digest ${digest}, and rank ${first}, whose copy it is, has ${other}`;
    throw errors.ShardsDiffer({ section: "weights", reason });
  }
}

/** A section of a version, and who has it. */
type SectionRequest = Parameters<typeof readShards>[1];

/** Where the shard of a rank can be had. */
export type SourceOf = (rank: number) => ShardSource;

/**
 * Learns where the shards of a section can be had. A holder that does not say where its ranks serve is left out.
 *
 * @throws MUSTER_ERR_SHARDS_DIFFER; the errors of `pull`, where nobody says it
 */
export async function sourceOfShards(
  reader: TextReader,
  wanted: SectionRequest,
  { cut, signal }: { readonly cut: RankCut; readonly signal: AbortSignal },
): Promise<SourceOf> {
  const { section } = wanted;
  const isTraining = partOf(section) === "training";
  const size = sizeOf(cut);
  if (section.shards?.of !== size)
    throw errors.ShardsDiffer({
      section: section.name,
      reason: `it has ${section.shards?.of ?? 0} shards, and trainers of this job ${size} processes`,
    });
  const [shards, holders] = await Promise.all([readShards(reader, wanted, signal), placesOf(reader, wanted, signal)]);
  const addressesOf = (rank: number): readonly string[] =>
    holders.flatMap((ranks) => (isTraining ? ranks[rank]?.training : ranks[rank]?.addresses) ?? []);
  return (rank) => {
    const shard = shards[rank];
    invariant(shard, "there is a shard for each rank");
    const copies = copiesOf(cut, rank).filter((copy) => shards[copy]?.digest === shard.digest);
    return { holders: copies.flatMap(addressesOf), section: { name: section.name, ...shard } };
  };
}

/** Where each shard of a section can be had, rank by rank. As {@link sourceOfShards}. */
export async function shardSourcesOf(
  ...[reader, wanted, { cut, signal }]: Parameters<typeof sourceOfShards>
): Promise<readonly ShardSource[]> {
  const sourceOf = await sourceOfShards(reader, wanted, { cut, signal });
  return Array.from({ length: sizeOf(cut) }, (_, rank) => sourceOf(rank));
}

/** Where the ranks of each holder serve that says so. */
async function placesOf(
  reader: TextReader,
  { lineage, version, holders }: SectionRequest,
  signal: AbortSignal,
): Promise<readonly (readonly RankAddresses[])[]> {
  const reading = holders.flatMap(({ addresses, ranks }) =>
    ranks ? [readRanks(reader, { lineage, version, addresses, ...ranks }, signal)] : [],
  );
  const read = await Promise.allSettled(reading);
  const known = read.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const failed = read.find((one) => one.status === "rejected");
  if (known.length === 0 && failed) throw failed.reason;
  return known;
}

/** The way of a part of the weights from trainers to one rank of samplers. Pure. */
export function regionsOf(from: RankCut | null, to: RankCut, rank: number): RankPlan {
  return planRank(to.tensors, [from ? layoutOf(from) : wholeLayout, layoutOf(to)], rank, from?.tensors);
}

/** Cuts the part of a rank out of a section that lies in memory. Pure but for `into`. */
export function cutInto({ slices }: RankPlan, whole: Uint8Array, into: Uint8Array): void {
  for (const { sourceOffset, sourceStride, targetOffset, targetStride, bytes, count } of slices)
    for (let row = 0; row < count; row++) {
      const from = sourceOffset + row * sourceStride;
      into.set(whole.subarray(from, from + bytes), targetOffset + row * targetStride);
    }
}
