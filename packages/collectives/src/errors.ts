/** Errors of the data plane, and the one table from native codes to them. */
import { defineErrors, type ErrorFactory, type MusterError } from "@muster/base";
import type { NativeFailure } from "./native-failure.ts";

/** What can go wrong between a holder and a reader, and between the members of a mesh. */
export const errors = defineErrors("MUSTER_ERR", {
  NativeMissing: {
    message: "the native data plane cannot be loaded ({reason}); build it with `npm run setup`",
  },
  NativeStale: {
    message:
      "the native data plane was built from other sources ({built}) than those here ({sources}); build it again: npm run build:native in the folder native, or npm run setup",
  },
  NativeOptionInvalid: { message: "{field} is {value}; {fix}" },
  NativeOptionRefused: { message: "the data plane refused an option of {operation}: {reason}" },
  NativeFailed: { message: "the operating system refused: {reason}", retryable: true },

  GlooMissing: {
    message:
      "gloo can not carry the group of epoch {epoch}: {reason}; install libgloo-dev and run npm run setup, or leave `transport` out",
  },

  GpuMissing: { message: "{what} is not possible on this host: {reason}; ask `muster doctor`" },
  GpuFailed: { message: "{what} failed: {reason}", retryable: true },
  GpuTimeout: { message: "{what} took longer than {timeoutMs} ms: {reason}", retryable: true },
  GpuFull: { message: "{what} failed: {reason}; free device memory first" },
  GpuPeerLost: { message: "{what} lost another rank: {reason}; form the next epoch without it", retryable: true },
  GpuSpent: { message: "{what} is not possible any more: {reason}; form the next epoch" },
  GpuAborted: { message: "{what} was aborted: {reason}" },

  VersionGone: { message: "no holder has version {id}: {reason}", retryable: true },
  VersionConflict: { message: "{reason}; a version id stands for the same bytes for ever" },
  VersionTooLarge: { message: "{reason}; raise slotBytes" },
  VersionStoreClosed: { message: "the version store is closed" },

  PullRefused: { message: "pulling version {id} was refused: {reason}; compare key and job on both sides" },
  PullDigestMismatch: { message: "version {id} does not have the digest expected: {reason}" },
  PullUnreachable: { message: "no holder gave version {id}: {reason}", retryable: true },
  PullTimeout: {
    message: "version {id} was not pulled within {timeoutMs} ms: {reason}",
    retryable: true,
  },
  PullAborted: { message: "the pull of version {id} was aborted" },

  CollectivePeerLost: {
    message: "mesh epoch {epoch} lost ranks [{ranks}]: {reason}; form the next epoch without them",
    retryable: true,
  },
  CollectiveTimeout: { message: "mesh epoch {epoch}: {reason}, within {timeoutMs} ms", retryable: true },
  CollectiveAborted: { message: "mesh epoch {epoch} was aborted: {reason}" },
  CollectiveRefused: {
    message: "mesh epoch {epoch} refused this member: {reason}; compare key, job, members and shards",
  },
  CollectiveDisagreement: { message: "the members of mesh epoch {epoch} disagree: {reason}" },
  CollectiveSpent: { message: "mesh epoch {epoch} cannot be used any more: {reason}; form the next epoch" },
});

type Table = Readonly<Record<string, ErrorFactory>>;

const common: Table = { INVALID_ARGUMENT: errors.NativeOptionRefused, IO: errors.NativeFailed };

const pull: Table = {
  ...common,
  GONE: errors.VersionGone,
  REFUSED: errors.PullRefused,
  DIGEST_MISMATCH: errors.PullDigestMismatch,
  UNREACHABLE: errors.PullUnreachable,
  TIMEOUT: errors.PullTimeout,
  ABORTED: errors.PullAborted,
};

const gpu: Table = {
  ...common,
  UNSUPPORTED: errors.GpuMissing,
  TOO_LARGE: errors.GpuFull,
  PEER_LOST: errors.GpuPeerLost,
  CLOSED: errors.GpuSpent,
  IO: errors.GpuFailed,
  TIMEOUT: errors.GpuTimeout,
  ABORTED: errors.GpuAborted,
};

const tables = {
  publish: {
    ...common,
    CONFLICT: errors.VersionConflict,
    TOO_LARGE: errors.VersionTooLarge,
    CLOSED: errors.VersionStoreClosed,
  },
  pull,
  gpu,
  shelf: { ...gpu, CONFLICT: errors.VersionConflict, CLOSED: errors.VersionStoreClosed },
  take: { ...gpu, ...pull, IO: errors.GpuFailed },
  mesh: {
    ...common,
    UNSUPPORTED: errors.GlooMissing,
    PEER_LOST: errors.CollectivePeerLost,
    TIMEOUT: errors.CollectiveTimeout,
    ABORTED: errors.CollectiveAborted,
    REFUSED: errors.CollectiveRefused,
    DISAGREEMENT: errors.CollectiveDisagreement,
    CLOSED: errors.CollectiveSpent,
  },
} as const satisfies Record<string, Table>;

/** Turns a native failure into the error of its code. `context` fills the other holes of the message; `members` are the names of ranks. */
export function errorOf(
  operation: keyof typeof tables,
  failure: NativeFailure,
  context: Readonly<Record<string, string | number>>,
  members: readonly string[] = [],
): MusterError {
  const table: Table = tables[operation];
  const factory = table[failure.code] ?? errors.NativeFailed;
  const reason = failure.message + namesOf(failure.ranks, members);
  return factory({ ...context, operation, reason, ranks: failure.ranks.join(", ") });
}

/** Most members that an error names. */
const namedMax = 16;

/** Who the ranks are: ` (1 is policy-1)`. Pure. */
function namesOf(ranks: readonly number[], members: readonly string[]): string {
  const named = ranks.flatMap((rank) => (members[rank] === undefined ? [] : [`${rank} is ${members[rank]}`]));
  if (named.length === 0) return "";
  const more = named.length > namedMax ? ` and ${named.length - namedMax} more` : "";
  return ` (${named.slice(0, namedMax).join(", ")}${more})`;
}
