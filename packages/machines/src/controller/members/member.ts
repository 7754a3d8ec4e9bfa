/** A row of the table of members. */
import type { Body, MemberRole } from "@muster/protocol";
import type { VersionKey } from "../../version-key.ts";
import type { AtMs } from "../at-ms.ts";
import type { Order } from "../order.ts";
import type { MemberMemory } from "../weights/memory-state.ts";

/** A replica as the controller sees it. Members that died or left are not in the table. */
export interface Member {
  readonly id: string;
  readonly role: MemberRole;
  readonly incarnation: string;
  /** Order of arrival; the base of every ranking. */
  readonly joinedSeq: number;
  readonly host: string;
  readonly pid: number;
  readonly addresses: readonly string[];
  /** Devices that a node gives to replicas; absent where it has none. */
  readonly devices?: readonly string[];
  /** Where the `training` part of what it holds can be pulled: empty where it was not kept; absent, or `null`, where that is `addresses`. */
  readonly training?: readonly string[] | null;
  /** Where each of its processes serves its shard of what it holds; absent, or `null`, where one process serves all. */
  readonly ranks?: Body<"weights.held">["ranks"] | null;
  readonly health: "healthy" | "suspect" | "hung" | "draining";
  /** When it was found hanging last; a second time soon after evicts it. */
  readonly hungAtMs: AtMs | null;
  /** When its last suspicions ended, within an hour: too many make it the last choice as a source of weights. */
  readonly recoveries: readonly AtMs[];
  /** The version whose digests it acknowledged. */
  readonly held: VersionKey | null;
  /** It computed other bytes than the first rank, which the job's level of agreement allows, and pulls those: until then it keeps its place in the mesh. */
  readonly isFollowing?: boolean;
  readonly order: Order | null;
  /** Its order before an election, which is given anew and has no more time for that; absent, or `null`, when it is given. */
  readonly owed?: Order | null;
  /** No new order before this time: set when one failed. */
  readonly retryAtMs: AtMs;
  /** Orders in a row that it let pass without an answer; nobody waits for it while there are any. */
  readonly unanswered: number;
  /** Leases of which it gave receipts that could not be true, and batches that nobody could read because of it. */
  readonly refused?: number;
  /** Those leases: a report that comes again counts no second time. */
  readonly refusedLeases?: readonly string[];
  /** Of a sampler: which of the job's `samplerEngines` it has; absent until it says so. */
  readonly engine?: number;
  /** Of a checkpoint actor that was asked to keep training state in memory. */
  readonly memory?: MemberMemory;
}
