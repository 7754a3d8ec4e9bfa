/** What a rollout replica hears, asks of its host, and remembers. */
import type { Body, FailureKind, JobConfig, WorkItem } from "@muster/protocol";
import type {
  CommandEvent,
  DropEffect,
  RegisteredEvent,
  ReportEffect,
  StoppingEvent,
  ToldEvent,
} from "../replica-events.ts";

type WeightHolding = Body<"weights.held">;

/** A part of a lease that is generated in one go. */
export interface Chunk {
  /** `<lease>/<n>`. */
  readonly id: string;
  readonly leaseId: string;
  readonly lineage: number;
  readonly version: number;
  readonly items: readonly WorkItem[];
}

/** Receipts that are not told yet, and the chunk of each message that they are about. */
export interface KeptReceipts {
  readonly chunkIds: readonly string[];
  readonly body: Body<"groups.completed">;
}

/** What a rollout replica asks of its host. */
export type RolloutEffect =
  | ReportEffect
  | DropEffect
  /** Pull, verify, swap between chunks; answers `weights.pulled` or `weights.errored`. */
  | { readonly type: "weights.pull"; readonly body: Body<"weights.pull"> }
  | { readonly type: "weights.abort"; readonly reason: string }
  /** Generate and score; answers `groups.generated`, then `groups.stored` or `evals.scored`; or `groups.errored`. */
  | { readonly type: "groups.generate"; readonly chunk: Chunk }
  | { readonly type: "groups.abort"; readonly reason: string }
  /** Stop drawing: finish what is whole, store the rest; answers `groups.begun` before `groups.generated`, if anything was begun. */
  | { readonly type: "groups.handBack"; readonly reason: string };

/** What a rollout replica hears. */
export type RolloutEvent =
  | CommandEvent<"weights.pull" | "groups.lease">
  | RegisteredEvent
  | StoppingEvent
  | ToldEvent
  | ({ readonly type: "weights.pulled" } & WeightHolding)
  | { readonly type: "weights.errored"; readonly lineage: number; readonly version: number; readonly cause: string }
  /** Items of a chunk that were begun and are handed back, with what is stored of them. */
  | {
      readonly type: "groups.begun";
      readonly chunkId: string;
      readonly leaseId: string;
      readonly items: readonly WorkItem[];
    }
  /** A full groups stream does not take what is done of a lease; it is tried again. */
  | {
      readonly type: "groups.heldBack";
      readonly leaseId: string;
      readonly reason: string;
      /** What is computed of it, and waits for nothing else. */
      readonly items: readonly WorkItem[];
    }
  /** What is drawn so far of items of a chunk that goes on is stored. */
  | { readonly type: "groups.saved"; readonly leaseId: string; readonly items: readonly WorkItem[] }
  /** The chunk is computed; its results are being stored, in `messages` messages, each of which ends in an event of its own. */
  | { readonly type: "groups.generated"; readonly chunkId: string; readonly messages: number }
  /** Receipts have waited for the rest of their lease for long enough. */
  | { readonly type: "receipts.due" }
  /** A lease is about to end, and others will have what is left of it. */
  | { readonly type: "lease.due"; readonly leaseId: string }
  | ({ readonly type: "groups.stored"; readonly chunkId: string } & Body<"groups.completed">)
  | ({ readonly type: "evals.scored"; readonly chunkId: string } & Body<"evals.completed">)
  /** `failure` is `null` when the engine is not at fault and the work is untouched; `messages` as in `groups.generated`. */
  | {
      readonly type: "groups.errored";
      readonly chunk: Chunk;
      readonly cause: string;
      readonly failure: FailureKind | null;
      readonly messages: number;
    };

/** How long a rollout replica waits, and how much it does in one go. */
export interface RolloutInput {
  readonly timing: { readonly pullMs: number; readonly leaseMs: number };
  readonly chunkGroups: number;
  readonly leasesMax: number;
}

/** What a rollout replica remembers; plain JSON. */
export interface RolloutContext extends RolloutInput {
  readonly held: WeightHolding | null;
  /** What the engine is was told, with the first version. */
  readonly isEngineTold: boolean;
  readonly wanted: { readonly lineage: number; readonly version: number } | null;
  /** Work not started yet, in order. */
  readonly queue: readonly Chunk[];
  readonly current: Chunk | null;
  /** What is still to be told of each chunk or lease: messages and reports that die with this process. None is 0. */
  readonly untold: Readonly<Record<string, number>>;
  /** Receipts of a lease that are told with those of its last chunk, which is being generated; `null` while there are none. */
  readonly kept: KeptReceipts | null;
  /** Lease whose time is nearly over while a chunk of it is generated; `null` while there is none. */
  readonly overdue: string | null;
  /** The last leases seen, so that a repeated order is known. */
  readonly seen: readonly string[];
  readonly isLeaving: boolean;
}

/** What a rollout replica takes from the job's configuration. Pure. */
export function rolloutInputOf(config: Pick<JobConfig, "timing" | "limits">): RolloutInput {
  const { pullMs, leaseMs } = config.timing;
  const { chunkGroups, leasesPerRollout } = config.limits;
  return { timing: { pullMs, leaseMs }, chunkGroups, leasesMax: leasesPerRollout + 1 };
}
