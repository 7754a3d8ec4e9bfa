/** Bytes of a weight version on their way between engines and the data plane. */
import { type Clock, invariant } from "@muster/base";
import {
  type DeltaOptions,
  type MappedVersion,
  planReshard,
  type SectionInfo,
  type VersionStore,
} from "@muster/collectives";
import type { RankTensor } from "@muster/engine";
import {
  type Body,
  type JobConfig,
  type Section,
  sectionsOfPart,
  type VersionPart,
  versionParts,
} from "@muster/protocol";
import type { Ports } from "./ports.ts";

/** Body of `weights.held`. */
export type WeightHolding = Body<"weights.held">;

/** Who pulls, with which key. */
export interface Puller {
  readonly job: string;
  readonly member: string;
  readonly dataKey: Uint8Array;
  readonly config: JobConfig;
}

/** How many ranks an engine has, and how they want its tensors cut. */
interface RanksOptions {
  readonly ranks: number;
  readonly tensors: readonly RankTensor[];
  readonly signal: AbortSignal;
}

/** What is pulled, and who has it. */
export type VersionRequest = Pick<Body<"weights.pull">, "lineage" | "version" | "sections" | "holders">;

/** One part of what is wanted: its sections, and where the holders serve them. Pure. */
function wantedPart(wanted: VersionRequest, part: VersionPart): VersionRequest {
  const holders = wanted.holders.map(({ id, addresses, training }) => ({
    id,
    addresses: part === "training" ? (training ?? addresses) : addresses,
  }));
  return { ...wanted, sections: sectionsOfPart(wanted.sections, part), holders };
}

/** The parts of which something is wanted. Pure. */
function partsIn({ sections }: VersionRequest): readonly VersionPart[] {
  return versionParts.filter((part) => sectionsOfPart(sections, part).length > 0);
}

/** Stores that take parts as they come from other hosts, and serve them on. */
type KeepIn = { readonly [part in VersionPart]?: VersionStore };

/** The parts of a version where they lie, until they are released. */
export interface MappedParts extends Pick<MappedVersion, "bytes" | "copyTo" | "release"> {
  readonly versions: { readonly [part in VersionPart]?: MappedVersion };
}

/**
 * Pulls the named sections of a version, part by part, and gives them where they lie.
 *
 * @throws the errors of `mapVersion`; nothing is held then.
 */
export async function mapParts(
  puller: Puller & Pick<Ports, "map"> & { readonly keepIn: KeepIn },
  wanted: VersionRequest,
  signal: AbortSignal,
): Promise<MappedParts> {
  const mapped: { readonly part: VersionPart; readonly names: readonly string[]; readonly version: MappedVersion }[] =
    [];
  const release = (): void => {
    for (const { version } of mapped) version.release();
  };
  try {
    for (const part of partsIn(wanted)) {
      const some = wantedPart(wanted, part);
      const version = await mapSections({ ...puller, keepIn: puller.keepIn[part] ?? null }, some, signal);
      mapped.push({ part, names: some.sections.map(({ name }) => name), version });
    }
  } catch (error) {
    release();
    throw error;
  }
  return {
    bytes: mapped.reduce((sum, { version }) => sum + version.bytes, 0),
    versions: Object.fromEntries(mapped.map(({ part, version }) => [part, version])),
    async copyTo(name, into, patience) {
      const one = mapped.find(({ names }) => names.includes(name));
      invariant(one, `section ${name} was asked for`);
      await one.version.copyTo(name, into, patience);
    },
    release,
  };
}

/**
 * Pulls the named sections of a version and gives them where they lie, for as long as they are not released. `keepIn` takes what comes from
 * another host, and serves it on.
 *
 * @throws the errors of `mapVersion`.
 */
export async function mapSections(
  puller: Puller & Pick<Ports, "map"> & { readonly keepIn: VersionStore | null },
  wanted: VersionRequest,
  signal: AbortSignal,
): Promise<MappedVersion> {
  const { keepIn } = puller;
  return await puller.map({ ...pullOf(puller, wanted), ...(keepIn ? { keepIn } : {}), signal });
}

/**
 * Pulls the weights of a version as the sections of several ranks, one after the other: of each only the slices of its rows, every byte verified
 * against the digest that was ordered.
 *
 * @throws the errors of `pullShards`.
 */
export async function pullRanks(
  puller: Puller & Pick<Ports, "pullShards"> & { readonly clock: Clock },
  wanted: VersionRequest,
  { ranks, tensors, signal }: RanksOptions,
): Promise<readonly Uint8Array<ArrayBuffer>[]> {
  const { clock } = puller;
  const { key, job, member, holders, id, deadlineMs } = pullOf(puller, wanted);
  const sources = sectionsOfPart(wanted.sections, "serving").map((section) => ({ holders, section }));
  // Policy replicas publish the tensors of the whole model one behind the other.
  const published = { tp: 1, pp: 1, dp: 1, align: 1 };
  const plans = planReshard(tensors, published, { tp: ranks, pp: 1, dp: 1 });
  const startedMs = clock.now();
  const shards: Uint8Array<ArrayBuffer>[] = [];
  for (const plan of plans) {
    const into = new Uint8Array(plan.sectionBytes);
    const leftMs = Math.max(1, deadlineMs - (clock.now() - startedMs));
    await puller.pullShards({ key, job, member, id, plan, sources, into, deadlineMs: leftMs, signal });
    shards.push(into);
  }
  return shards;
}

/** What is asked for on the data plane: sections by their names there. Pure. */
export const pullOf = (
  puller: Puller,
  {
    lineage,
    version,
    sections,
    holders,
  }: Pick<VersionRequest, "lineage" | "version"> & {
    readonly sections: readonly SectionInfo[];
    readonly holders: readonly Pick<VersionRequest["holders"][number], "addresses">[];
  },
) => ({
  key: puller.dataKey,
  job: puller.job,
  member: puller.member,
  holders: holders.flatMap(({ addresses }) => addresses),
  id: { lineage, version },
  sections,
  deadlineMs: puller.config.timing.pullMs,
});

/** How versions cross between hosts in this job. */
export const deltaOf = ({ data }: JobConfig): DeltaOptions => ({
  mode: data.delta,
  anchorEvery: data.deltaAnchorEvery,
  keep: data.deltaKeep,
});

/** Sections as messages name them. */
export function sectionsOf(
  infos: readonly { readonly name: string; readonly bytes: number; readonly digest: string }[],
): Section[] {
  return infos.map(({ name, bytes, digest }) => ({
    name: name === "optimizer" ? "optimizer" : "weights",
    bytes,
    digest,
  }));
}

/** Versions of one lineage in one number, so that an engine never takes a rolled-back version for one it has. */
export function engineVersionOf({ lineage, version }: { readonly lineage: number; readonly version: number }): number {
  return lineage * 2 ** 32 + version;
}

/** The policy version in an engine's number. */
export function policyVersionOf(engineVersion: number): number {
  return engineVersion % 2 ** 32;
}
