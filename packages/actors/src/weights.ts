/** Bytes of a weight version on their way between engines and the data plane. */
import type { Clock } from "@muster/base";
import {
  type DeltaOptions,
  type MappedVersion,
  type PullResult,
  planReshard,
  type VersionStore,
} from "@muster/collectives";
import type { RankTensor } from "@muster/engine";
import type { Body, JobConfig, Section } from "@muster/protocol";
import type { Doors } from "./doors.ts";

/** Buffers for the sections of a version, by name. */
export type SectionBytes = Readonly<Record<string, Uint8Array>>;

/** Body of `weights.held`. */
export type Held = Body<"weights.held">;

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

type Wanted = Pick<Body<"weights.pull">, "lineage" | "version" | "sections" | "holders">;

/**
 * Pulls the named sections of a version, with the digests that were ordered, into fresh buffers.
 *
 * @throws the errors of `pullVersion`; the buffers are then of no use.
 */
export async function pullSections(
  puller: Puller & Pick<Doors, "pull">,
  wanted: Wanted,
  signal: AbortSignal,
): Promise<{ readonly bytes: SectionBytes; readonly result: PullResult }> {
  const bytes = Object.fromEntries(wanted.sections.map((section) => [section.name, new Uint8Array(section.bytes)]));
  const result = await puller.pull({ ...pullOf(puller, wanted), into: bytes, signal });
  return { bytes, result };
}

/**
 * Pulls the named sections of a version and gives them where they lie, for as long as they are not released. `keepIn` takes what comes from
 * another host, and serves it on.
 *
 * @throws the errors of `mapVersion`.
 */
export async function mapSections(
  puller: Puller & Pick<Doors, "map"> & { readonly keepIn: VersionStore | null },
  wanted: Wanted,
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
  puller: Puller & Pick<Doors, "pullShards"> & { readonly clock: Clock },
  wanted: Wanted,
  { ranks, tensors, signal }: RanksOptions,
): Promise<readonly Uint8Array<ArrayBuffer>[]> {
  const { clock } = puller;
  const { key, job, member, holders, id, deadlineMs } = pullOf(puller, wanted);
  const sources = wanted.sections.filter(({ name }) => name === "weights").map((section) => ({ holders, section }));
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

const pullOf = (puller: Puller, { lineage, version, sections, holders }: Wanted) => ({
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
