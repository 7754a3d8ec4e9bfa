/** Sections that are put together from the shards of trainers, for a process that needs all of them. */
import { planRank, type RankPlan, type ShardSource } from "@muster/collectives";
import { bytesIn, copyBytes, type RankCut, roomFor } from "@muster/engine";
import type { Section } from "@muster/protocol";
import { errors } from "../errors.ts";
import type { Ports } from "../ports.ts";
import type { VersionRequest } from "../weights.ts";
import { type PiecesPuller, pullPieces } from "./pull-pieces.ts";
import { layoutOf, shardSourcesOf, wholeLayout } from "./sharded-sections.ts";

/** A section in memory of this process, which may be more than one array can hold. */
export interface Collected {
  readonly length: number;
  /** Fills `into` with the bytes from `from` on. */
  copyTo(into: Uint8Array, from?: number): Promise<void>;
}

/** How a section is put together. */
export interface CollectOptions {
  /** How trainers have it. */
  readonly cut: RankCut;
  readonly signal: AbortSignal;
}

/** Of the cuts that were asked for: the way is the same for every version. */
const wholePlans = new WeakMap<RankCut, RankPlan>();

/** The way of a section from the shards of trainers to one process. Of an optimizer only its engine knows what is in it: shard follows shard. Pure. */
function wholePlan(name: Section["name"], sources: readonly ShardSource[], cut: RankCut): RankPlan {
  if (name === "weights") {
    const plan = wholePlans.get(cut) ?? planRank(cut.tensors, [layoutOf(cut), wholeLayout], 0);
    wholePlans.set(cut, plan);
    return plan;
  }
  let end = 0;
  const slices = sources.map(({ section: { bytes } }, from) => {
    const targetOffset = end;
    end += bytes;
    return {
      tensor: name,
      from,
      sourceOffset: 0,
      sourceStride: bytes,
      targetOffset,
      targetStride: bytes,
      bytes,
      count: 1,
    };
  });
  return { rank: 0, sectionBytes: end, slices: slices.filter(({ bytes }) => bytes > 0) };
}

/**
 * Collects sections from the shards of trainers, in memory of this process. Each byte is verified by the digest of the shard that it comes from.
 *
 * @throws MUSTER_ERR_SHARDS_DIFFER; the errors of `pullShards`
 */
export async function collectShards(
  puller: PiecesPuller & Pick<Ports, "pull" | "pieceMax">,
  wanted: VersionRequest,
  { cut, signal }: CollectOptions,
): Promise<{ readonly sections: Readonly<Record<string, Collected>>; readonly wireBytes: number }> {
  const { holders, lineage, version } = wanted;
  const endMs = puller.clock.now() + puller.config.timing.pullMs;
  const sections: Record<string, Collected> = {};
  let wireBytes = 0;
  for (const section of wanted.sections) {
    const sources = await shardSourcesOf(puller, { lineage, version, section, holders }, { cut, signal });
    const plan = wholePlan(section.name, sources, cut);
    checkSize(section, plan);
    const room = roomFor(plan.sectionBytes, puller.pieceMax);
    const pulled = await pullPieces(puller, { id: { lineage, version }, plan, sources, room, endMs, signal });
    wireBytes += pulled.wireBytes;
    const copyTo: Collected["copyTo"] = async (into, from = 0) => copyBytes(room, into, from);
    sections[section.name] = { length: bytesIn(room), copyTo };
  }
  return { sections, wireBytes };
}

function checkSize({ name, bytes }: Section, { sectionBytes }: RankPlan): void {
  if (sectionBytes === bytes) return;
  const reason = `they come to ${sectionBytes} bytes, and ${bytes} were ordered`;
  throw errors.ShardsDiffer({ section: name, reason });
}
