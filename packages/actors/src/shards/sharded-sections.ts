/** Sections that no process has all of: rank r of each trainer serves shard r. The list of the shards has the digest that was voted on, so it is checked first. */
import {
  type ParallelLayout,
  planRank,
  type RankPlan,
  ranksOf,
  type ShardSource,
  sectionSizes,
} from "@muster/collectives";
import type { RankCut } from "@muster/engine";
import { type Holder, partOf, type Section } from "@muster/protocol";
import { errors } from "../errors.ts";
import type { Ports } from "../ports.ts";

type Shards = NonNullable<Section["shards"]>;

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

/** What the digest of a list of shards begins with: that of a section as one piece is never taken for it. */
const listPrefix = "shards:";

/** True for the digest of a section that lies in shards: its bytes are in the order of these. Pure. */
export const isOfShards = (digest: string): boolean => digest.startsWith(listPrefix);

/** Names a section by its shards. */
export async function sectionOfShards(
  ports: Pick<Ports, "digests">,
  { name, bytes, shards }: Pick<Section, "name" | "bytes"> & { readonly shards: Shards },
  signal: AbortSignal,
): Promise<Section> {
  const list = [name, bytes, shards.map((shard) => [shard.bytes, shard.digest])];
  const [digest = ""] = await ports.digests([new TextEncoder().encode(JSON.stringify(list))], signal);
  return { name, bytes, digest: `${listPrefix}${digest}`, shards };
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

/** The shards of a section, when their list has the section's digest. @throws MUSTER_ERR_SHARDS_DIFFER */
async function shardsIn(
  ports: Pick<Ports, "digests">,
  section: Section,
  { size, signal }: { readonly size: number; readonly signal: AbortSignal },
): Promise<Shards> {
  const { name, shards = [] } = section;
  if (shards.length !== size)
    throw errors.ShardsDiffer({
      section: name,
      reason: `it has ${shards.length} shards, and trainers of this job ${size} processes`,
    });
  const { digest } = await sectionOfShards(ports, { ...section, shards }, signal);
  if (digest !== section.digest)
    throw errors.ShardsDiffer({
      section: name,
      reason: `their list has digest ${digest}, and ${section.digest} was ordered`,
    });
  return shards;
}

/** Where each shard of a section can be had, once the list of the shards is verified. @throws MUSTER_ERR_SHARDS_DIFFER */
export async function shardSourcesOf(
  ports: Pick<Ports, "digests">,
  { section, holders }: { readonly section: Section; readonly holders: readonly Holder[] },
  { cut, signal }: { readonly cut: RankCut; readonly signal: AbortSignal },
): Promise<readonly ShardSource[]> {
  const isTraining = partOf(section) === "training";
  const shards = await shardsIn(ports, section, { size: sizeOf(cut), signal });
  const addressesOf = (rank: number): readonly string[] =>
    holders.flatMap(({ ranks }) => (isTraining ? ranks?.[rank]?.training : ranks?.[rank]?.addresses) ?? []);
  return shards.map((shard, rank) => {
    const copies = copiesOf(cut, rank).filter((copy) => shards[copy]?.digest === shard.digest);
    return { holders: copies.flatMap(addressesOf), section: { name: section.name, ...shard } };
  });
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
