/** Pulling one rank's section of a model from ranks that have it cut another way. */

import { checkKey, checkName, checkTimeout } from "../check.ts";
import { hexOf } from "../digest.ts";
import { errorOf, errors } from "../errors.ts";
import type { VersionId } from "../mapped-version.ts";
import { cancellable, native } from "../native.ts";
import { checkVersionId, type SectionInfo } from "../version-store.ts";
import type { RankPlan, Slice } from "./plan.ts";

/** Where the section of one source rank can be had. */
export interface ShardSource {
  /** Addresses of version stores in order of preference: the rank itself, then data-parallel copies of it, which have the same bytes. */
  readonly holders: readonly string[];
  /** The section as it was published. */
  readonly section: SectionInfo;
}

/** What to pull, from whom, and where to. */
export interface PullShardsOptions {
  /** Secret of the job; see `VersionStoreOptions`. */
  readonly key: Uint8Array;
  readonly job: string;
  readonly member: string;
  readonly id: VersionId;
  readonly plan: RankPlan;
  /** By rank of the layout that the plan leads from. */
  readonly sources: readonly ShardSource[];
  /** Of exactly `plan.sectionBytes`. Gaps between shards stay as they are. */
  readonly into: Uint8Array;
  /** Longest duration in milliseconds. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/** How it went. */
export interface PullShardsResult {
  /** Bytes of the slices. */
  readonly bytes: number;
  /** Bytes that crossed a network for them: whole blocks of 256 KiB in which slices lie. */
  readonly wireBytes: number;
  readonly durationMs: number;
}

/**
 * Pulls what a plan of `planReshard` says, from all sources at the same time. Every byte is verified against the digest of the section that it
 * comes from. From a holder on this host only the slices are copied; from another host the blocks that they lie in are sent. A source that breaks
 * off is replaced by its next holder, and what was verified is not sent again.
 *
 * After an error `into` is of no use: some sources may have been written.
 *
 * @throws As `pullVersion`; MUSTER_ERR_NATIVE_OPTION_INVALID for a source that is missing, or a target of another length.
 */
export async function pullShards(options: PullShardsOptions): Promise<PullShardsResult> {
  const { key, job, member, id, plan, sources, into } = options;
  checkKey(key);
  checkName("job", job);
  checkName("member", member);
  checkVersionId(id);
  const timeoutMs = checkTimeout("deadlineMs", options.deadlineMs);
  if (into.byteLength !== plan.sectionBytes) {
    const fix = `give a Uint8Array of ${plan.sectionBytes} bytes`;
    throw errors.NativeOptionInvalid({ field: "into", value: `${into.byteLength} bytes long`, fix });
  }
  const startedAtMs = performance.now();
  const giveUp = new AbortController();
  const signal = AbortSignal.any([options.signal, giveUp.signal]);
  const one = async ([rank, slices]: readonly [number, readonly Slice[]]) => {
    const { holders, section } = sourceOf(sources, rank);
    const pulled = await cancellable(signal, (cancellation) =>
      native().pullSlices({
        ...{ key, job, member, holders, lineage: id.lineage, version: id.version, timeoutMs, cancellation, into },
        section: { name: section.name, bytes: section.bytes, digest: hexOf(section.digest) },
        slices: slices.map(nativeSliceOf),
      }),
    );
    if (pulled.ok) return pulled.value;
    giveUp.abort(); // one missing part makes the others useless
    throw errorOf("pull", pulled, { id: `${id.lineage}/${id.version}`, timeoutMs });
  };
  const parts = await allOf([...bySource(plan)].map(one));
  return {
    bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0),
    wireBytes: parts.reduce((sum, { wireBytes }) => sum + wireBytes, 0),
    durationMs: performance.now() - startedAtMs,
  };
}

/** Waits for all, because native threads write into the target until they have ended; then throws the failure that came first. */
async function allOf<T>(promises: readonly Promise<T>[]): Promise<readonly T[]> {
  try {
    return await Promise.all(promises);
  } finally {
    await Promise.allSettled(promises);
  }
}

function bySource({ slices }: RankPlan): ReadonlyMap<number, readonly Slice[]> {
  const sources = new Map<number, Slice[]>();
  for (const slice of slices) {
    const others = sources.get(slice.from);
    if (others) others.push(slice);
    else sources.set(slice.from, [slice]);
  }
  return sources;
}

function sourceOf(sources: readonly ShardSource[], rank: number): ShardSource {
  const source = sources[rank];
  if (source) return source;
  throw errors.NativeOptionInvalid({ field: `sources.${rank}`, value: "missing", fix: "name a source for every rank" });
}

const nativeSliceOf = ({ sourceOffset, sourceStride, targetOffset, targetStride, bytes, count }: Slice) => ({
  ...{ from: sourceOffset, fromStride: sourceStride, to: targetOffset, toStride: targetStride, bytes, count },
});
