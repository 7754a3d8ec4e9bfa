/** Bytes of a weight version on their way between engines and the data plane. */
import type { DeltaOptions, MappedVersion, PullResult, VersionStore } from "@muster/collectives";
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
