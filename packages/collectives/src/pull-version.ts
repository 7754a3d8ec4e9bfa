/** Pulling a weight version from whoever holds it. */
import { checkKey, checkName, checkTimeout } from "./check.ts";
import { hexOf } from "./digest.ts";
import { errorOf, errors } from "./errors.ts";
import { cancellable, native } from "./native.ts";
import { checkVersionId, type SectionInfo, type VersionId } from "./version-store.ts";

/** What to pull, from whom, and where to. */
export interface PullOptions {
  /** Secret of the job; see `VersionStoreOptions`. */
  readonly key: Uint8Array;
  readonly job: string;
  readonly member: string;
  /** Addresses of version stores in order of preference, at most 64. Unix addresses of other hosts are passed over quickly. */
  readonly holders: readonly string[];
  readonly id: VersionId;
  /** The sections wanted, as they were published; a part of the version will do. */
  readonly sections: readonly SectionInfo[];
  /** Target by section name, of exactly the section's size. Must not be transferred until the promise settles. */
  readonly into: Readonly<Record<string, Uint8Array>>;
  /** Longest duration in milliseconds. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/** How a pull went. */
export interface PullResult {
  readonly bytes: number;
  readonly durationMs: number;
  /** `memory`: mapped from a holder on this host; `tcp`: streamed. */
  readonly via: "memory" | "tcp";
  /** Address of the holder; of the last one, when a stream changed holders on its way. */
  readonly from: string;
}

/**
 * Pulls a version from the first holder that can give it.
 *
 * The digest of every section is verified before the first byte of `into` is written: after any error `into` is as it was. A TCP stream that breaks
 * off, or is silent for 500 ms, goes on with the next holder where it stood. Each holder is tried once, and a second time when it broke off.
 *
 * @throws MUSTER_ERR_PULL_DIGEST_MISMATCH, MUSTER_ERR_PULL_REFUSED (another key or job), MUSTER_ERR_VERSION_GONE or
 *   MUSTER_ERR_PULL_UNREACHABLE: the most telling of the reasons of all holders; the message has them all.
 * @throws MUSTER_ERR_PULL_TIMEOUT, MUSTER_ERR_PULL_ABORTED
 */
export async function pullVersion(options: PullOptions): Promise<PullResult> {
  const { key, job, member, holders, id } = options;
  checkKey(key);
  checkName("job", job);
  checkName("member", member);
  checkVersionId(id);
  const timeoutMs = checkTimeout("deadlineMs", options.deadlineMs);
  const targets = targetsOf(options);
  const startedAtMs = performance.now();
  const pulled = await cancellable(options.signal, (cancellation) =>
    native().pullVersion({ key, job, member, holders, ...id, targets, timeoutMs, cancellation }),
  );
  if (!pulled.ok) throw errorOf("pull", pulled, { id: `${id.lineage}/${id.version}`, timeoutMs });
  return { ...pulled.value, durationMs: performance.now() - startedAtMs };
}

function targetsOf({ sections, into }: PullOptions): { name: string; digest: string; into: Uint8Array }[] {
  return sections.map(({ name, bytes, digest }) => {
    const target = into[name];
    if (target?.byteLength !== bytes) {
      throw errors.NativeOptionInvalid({
        field: `into.${name}`,
        value: target ? `${target.byteLength} bytes long` : "missing",
        fix: `give a Uint8Array of ${bytes} bytes`,
      });
    }
    return { name, digest: hexOf(digest), into: target };
  });
}
