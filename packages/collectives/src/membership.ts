/** Who meets whom, the same for gradient meshes and groups: the checked options, and the form in which the core takes them. */
import { checkKey, checkName, checkTimeout, checkWhole } from "./check.ts";
import { errors } from "./errors.ts";
import type { NativeMembership } from "./native.ts";
import { nativeStoreOf } from "./open-stores.ts";
import type { VersionStore } from "./version-store.ts";

/** Where a member of a mesh is. */
export interface MeshPlace {
  /** Name of the host; members with the same one share memory. */
  readonly host: string;
  /** Addresses of the member's version store, at which other hosts meet it. */
  readonly addresses: readonly string[];
}

/** Who meets, and where. All members must give the same values but for `rank`. */
export interface MembershipOptions {
  /** Secret of the job; see `VersionStoreOptions`. */
  readonly key: Uint8Array;
  readonly job: string;
  /** Counter of builds; members of different epochs never meet. */
  readonly epoch: number;
  /** Where an epoch has several meshes, as one for each rank of replicas of several processes: which one this is, 0 … 1023. Members of different parts never meet. */
  readonly part?: number;
  readonly rank: number;
  /** Names of the members in rank order, 1 … 1024. */
  readonly members: readonly string[];
  /** Places of the members in rank order; not needed when all are on one host. */
  readonly places?: readonly MeshPlace[];
  /** This member's version store, at which other hosts meet it. Needed with members on several hosts. */
  readonly store?: VersionStore;
  /** Folder for sockets, shared by the members of a host; its path takes at most 83 bytes. */
  readonly socketDir: string;
  /** Longest time in milliseconds until all members are there. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
}

/** Most parts of an epoch. */
const partsMax = 4096;

/** @throws MUSTER_ERR_NATIVE_OPTION_INVALID naming the first field that is out of range. */
export function membershipOf(options: MembershipOptions): NativeMembership {
  const { key, job, epoch, part = 0, rank, members, socketDir } = options;
  checkKey(key);
  checkName("job", job);
  for (const member of members) checkName("members", member);
  checkWhole("epoch", epoch, { min: 0, max: Math.floor(Number.MAX_SAFE_INTEGER / partsMax) - 1 });
  checkWhole("part", part, { min: 0, max: partsMax - 1 });
  checkWhole("members.length", members.length, { min: 1, max: 1024 });
  checkWhole("rank", rank, { min: 0, max: members.length - 1 });
  const timeoutMs = checkTimeout("deadlineMs", options.deadlineMs);
  const store = options.store ? nativeStoreOf(options.store) : null;
  const numbered = options.part === undefined ? epoch : epoch * partsMax + part;
  return { key, job, epoch: numbered, rank, members, socketDir, places: placesOf(options), store, timeoutMs };
}

/** A mesh as people know it: its epoch, and which of several it is. Pure. */
export const epochText = ({ epoch, part }: Pick<MembershipOptions, "epoch" | "part">): string =>
  part === undefined ? `${epoch}` : `${epoch} of rank ${part}`;

/** Places as the core takes them: none on one host, and else each with the one address that crosses hosts. */
function placesOf({ places = [], members, store }: MembershipOptions): { host: string; address: string }[] {
  if (new Set(places.map(({ host }) => host)).size < 2) return [];
  checkWhole("places.length", places.length, { min: members.length, max: members.length });
  if (!store) throw errors.NativeOptionInvalid({ field: "store", value: "missing", fix: "give this member's store" });
  return places.map(({ host, addresses }, rank) => {
    const address = addresses.find((each) => each.startsWith("tcp:"));
    if (address) return { host, address };
    throw errors.NativeOptionInvalid({
      field: `places[${rank}].addresses`,
      value: `[${addresses.join(", ")}], without an address that other hosts can reach,`,
      fix: `have ${members[rank]} serve on TCP: set data.tcp_host to a network that all hosts are in`,
    });
  });
}
