/** Pulling a weight version from whoever holds it. */
import { checkKey, checkName, checkTimeout, checkWhole } from "./check.ts";
import { errorOf, errors } from "./errors.ts";
import type { MappedVersion, PullResult, VersionId } from "./mapped-version.ts";
import { cancellable, type NativeCancellation, type NativePull, native } from "./native.ts";
import { nativeStoreOf, rememberMapped } from "./open-stores.ts";
import { type ProgressOptions, withProgress } from "./pull-progress.ts";
import { tableOf } from "./section-table.ts";
import { checkVersionId, type SectionInfo, type VersionStore, versionText } from "./version-store.ts";

/** What to pull, and from whom. */
export interface MapOptions extends ProgressOptions {
  /** Secret of the job; see `VersionStoreOptions`. */
  readonly key: Uint8Array;
  readonly job: string;
  readonly member: string;
  /** Addresses of version stores in order of preference, at most 64. Unix addresses of other hosts are passed over quickly. */
  readonly holders: readonly string[];
  readonly id: VersionId;
  /** The sections wanted, as they were published; a part of the version will do. */
  readonly sections: readonly SectionInfo[];
  /**
   * Takes the version when it comes from another host, and serves it to others from the first verified block on. A version that this store
   * has already is not fetched again. Where the store has another version of the same sections, what crosses may be a delta to it; see
   * `DeltaOptions`.
   */
  readonly keepIn?: VersionStore;
  /** Longest duration in milliseconds. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/** What to pull, from whom, and where to. */
export interface PullOptions extends MapOptions {
  /** Target by section name, of exactly the section's size. Must not be transferred until the promise settles. */
  readonly into: Readonly<Record<string, Uint8Array>>;
}

/**
 * Pulls a version from the first holder that can give it, and copies it to `into`.
 *
 * What comes by TCP is verified block by block; what a holder on this host gives was digested as it stored it, in memory that nobody can
 * change. After an error the content of `into` is of no use. A TCP stream that breaks off, or is silent for longer than its round trip
 * explains while there are other holders (220 ms on a local network), goes on with the next one at the last verified block. Holders that broke off are tried a second time, and again for as long as
 * the version gets further. A holder that gets no bytes itself says so, and is waited for up to 2 s.
 *
 * @throws MUSTER_ERR_PULL_DIGEST_MISMATCH, MUSTER_ERR_PULL_REFUSED (another key or job), MUSTER_ERR_VERSION_GONE or
 *   MUSTER_ERR_PULL_UNREACHABLE: the most telling of the reasons of all holders; the message has them all.
 * @throws MUSTER_ERR_PULL_TIMEOUT, MUSTER_ERR_PULL_ABORTED
 */
export async function pullVersion(options: PullOptions): Promise<PullResult> {
  const into = targetsOf(options);
  const startedAtMs = performance.now();
  const { timeoutMs, call } = nativePullOf(options);
  const pulled = await cancellable(options.signal, (cancellation) =>
    withProgress(options, (progress) => native().pullVersion({ ...call(cancellation), progress, into })),
  );
  if (!pulled.ok) throw errorOf("pull", pulled, { id: versionText(options.id), timeoutMs });
  return { ...pulled.value, durationMs: performance.now() - startedAtMs };
}

/**
 * Pulls a version as `pullVersion` does, and keeps its bytes where they are. From a holder on this host nothing is copied, and nothing is
 * digested again: the holder digested each byte as it stored it, in memory that nobody can change.
 *
 * @throws As `pullVersion`.
 */
export async function mapVersion(options: MapOptions): Promise<MappedVersion> {
  const startedAtMs = performance.now();
  const { timeoutMs, call } = nativePullOf(options);
  const mapped = await cancellable(options.signal, (cancellation) =>
    withProgress(options, (progress) => native().mapVersion({ ...call(cancellation), progress })),
  );
  if (!mapped.ok) throw errorOf("pull", mapped, { id: versionText(options.id), timeoutMs });
  const { mapped: handle, copyTo, release, ...result } = mapped.value;
  const { id, sections } = options;
  let isReleased = false;
  const version: MappedVersion = {
    ...result,
    durationMs: performance.now() - startedAtMs,
    async copyTo(name, into, { from, deadlineMs, signal }) {
      if (isReleased) throw errors.NativeOptionInvalid({ field: "version", value: "released", fix: "copy it before" });
      const section = sections.findIndex((each) => each.name === name);
      const bytes = sections[section]?.bytes;
      if (from === undefined || bytes === undefined) checkTarget(name, bytes, into);
      else checkWhole("from", from, { min: 0, max: bytes - into.byteLength });
      const timeoutMs = checkTimeout("deadlineMs", deadlineMs);
      const copied = await cancellable(signal, (cancellation) =>
        copyTo({ section, from: from ?? 0, into, timeoutMs, cancellation }),
      );
      if (!copied.ok) throw errorOf("pull", copied, { id: versionText(id), timeoutMs });
    },
    release() {
      isReleased = true;
      release();
    },
  };
  rememberMapped(version, () => (isReleased ? null : { handle, sections }));
  return version;
}

function nativePullOf(options: MapOptions): {
  readonly timeoutMs: number;
  readonly call: (cancellation: NativeCancellation) => Omit<NativePull, "progress">;
} {
  const { key, job, member, holders, id, sections, keepIn } = options;
  checkKey(key);
  checkName("job", job);
  checkName("member", member);
  checkVersionId(id);
  const timeoutMs = checkTimeout("deadlineMs", options.deadlineMs);
  const wanted = tableOf(sections);
  const store = keepIn ? nativeStoreOf(keepIn) : null;
  const call = (cancellation: NativeCancellation): Omit<NativePull, "progress"> => ({
    ...{ key, job, member, holders, lineage: id.lineage, version: id.version },
    ...{ wanted, keepIn: store, timeoutMs, cancellation },
  });
  return { timeoutMs, call };
}

function targetsOf({ sections, into }: PullOptions): Uint8Array[] {
  return sections.map(({ name, bytes }) => checkTarget(name, bytes, into[name]));
}

function checkTarget(section: string, bytes: number | undefined, into: Uint8Array | undefined): Uint8Array {
  if (into && into.byteLength === bytes) return into;
  throw errors.NativeOptionInvalid({
    field: `into.${section}`,
    value: into ? `${into.byteLength} bytes long` : "missing",
    fix: bytes === undefined ? "name a section that was asked for" : `give a Uint8Array of ${bytes} bytes`,
  });
}
