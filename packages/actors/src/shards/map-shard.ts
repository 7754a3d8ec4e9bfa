/** The shard that one rank of a trainer takes of a version: it stays where it lies until the engine has it, so that nothing is held twice on its way. */
import type { MappedVersion } from "@muster/collectives";
import type { RankCut, SectionSource, StateSource } from "@muster/engine";
import type { Section } from "@muster/protocol";
import { errors } from "../errors.ts";
import type { Ports } from "../ports.ts";
import { type Puller, pullOf, type VersionRequest } from "../weights.ts";
import { sourceOfShards } from "./sharded-sections.ts";

/** Which rank, and what it must come to. */
interface Own {
  readonly rank: number;
  readonly cut: RankCut;
  /** Bytes of this rank's shards. */
  readonly size: Readonly<Record<Section["name"], number>>;
  readonly signal: AbortSignal;
}

interface MappedShard {
  readonly source: StateSource;
  /** Gives the memory back. */
  release(): void;
}

const never = new AbortController().signal;

/**
 * Maps the shards of a rank from the same rank of other trainers.
 *
 * @throws MUSTER_ERR_SHARDS_DIFFER; the errors of `mapVersion`; nothing is held then.
 */
export async function mapShard(
  puller: Puller & Pick<Ports, "map" | "pull">,
  wanted: VersionRequest,
  own: Own,
): Promise<MappedShard> {
  const { rank, size } = own;
  const mapped = new Map<string, MappedVersion>();
  const release = (): void => {
    for (const version of mapped.values()) version.release();
  };
  try {
    for (const section of wanted.sections) mapped.set(section.name, await mapOne(puller, { wanted, section }, own));
    const sourceOf = (name: Section["name"]): SectionSource => {
      const version = mapped.get(name);
      const bytes = version?.bytes ?? 0;
      if (!version || bytes !== size[name])
        throw errors.ShardsDiffer({
          section: name,
          reason: `that of rank ${rank} has ${bytes} bytes, and this trainer's ${size[name]}`,
        });
      // When all ranks have theirs none may stop on its way: half of a trainer would have another version.
      const patience = { deadlineMs: puller.config.timing.pullMs, signal: never };
      return { bytes, copyTo: (into, from = 0) => version.copyTo(name, into, { ...patience, from }) };
    };
    return { source: { weights: sourceOf("weights"), optimizer: sourceOf("optimizer") }, release };
  } catch (error) {
    release();
    throw error;
  }
}

async function mapOne(
  puller: Puller & Pick<Ports, "map" | "pull">,
  { wanted, section }: { readonly wanted: VersionRequest; readonly section: Section },
  { rank, cut, signal }: Own,
): Promise<MappedVersion> {
  const { lineage, version, holders } = wanted;
  const sourceOf = await sourceOfShards(puller, { lineage, version, section, holders }, { cut, signal });
  const source = sourceOf(rank);
  const asked = { ...wanted, sections: [source.section], holders: [{ addresses: [...source.holders] }] };
  return await puller.map({ ...pullOf(puller, asked), signal });
}
