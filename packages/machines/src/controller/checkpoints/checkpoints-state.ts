/** The part of the controller's tables that is about durable weights: the checkpoint that counts, and those beside it. */
import type { Body } from "@muster/protocol";
import type { AtMs } from "../at-ms.ts";

/** A checkpoint that was reported durable. */
export interface KeptCheckpoint {
  readonly step: number;
  readonly version: number;
  readonly path: string;
  /** Host of who wrote it: when it says that nothing is there, that is so. */
  readonly host: string;
  /** Of its manifest, which names all that is in it. Absent in journals of programs that did not keep it. */
  readonly manifestDigest?: string;
}

/** What a step that a checkpoint covers came to: its trajectories are purged, so it would be sampled again. */
export interface CoveredStep {
  readonly completed: number;
  readonly aborted: number;
  /** Indices of groups without a result: they stay given up. */
  readonly givenUp: readonly number[];
}

/** What the job goes back to when its newest checkpoint turns out to be damaged. */
export interface Fallback {
  /** Copies of the newest checkpoint and the older ones that retention keeps, newest first. */
  readonly older: readonly KeptCheckpoint[];
  /** The last checkpoints that could not be restored, why, and on which host; journals of programs that did not keep it have no host. */
  readonly damaged: readonly { readonly path: string; readonly reason: string; readonly host?: string }[];
  /** By step: those between the oldest of these checkpoints and the newest. */
  readonly covered: Readonly<Record<string, CoveredStep>>;
}

/** A checkpoint that several actors write together. */
export interface ShardSet {
  readonly step: number;
  readonly lineage: number;
  readonly version: number;
  readonly of: number;
  /** Shards that are durable. */
  readonly done: readonly number[];
  /** Incarnations that have all bytes of the version, because they have written a shard of it. */
  readonly by: readonly string[];
  /** What every order about it says alike, whatever the job has come to since. */
  readonly told: Pick<Body<"checkpoint.save">, "sections" | "holders" | "groupsWatermark" | "ledger">;
}

/** Where durable weights stand. */
export interface Checkpoints {
  /** Step whose version should become durable next. */
  readonly wantedStep: number | null;
  /** Given up after this time when the job is ending. */
  readonly dueAtMs: AtMs;
  readonly saved: KeptCheckpoint | null;
  /** Failures in a row. */
  readonly failures: number;
  /** Those that are on too few hosts to count; absent while there are none. */
  readonly copies?: readonly KeptCheckpoint[];
  /** Copies that never came to count and never will: they may be removed. The last 64; absent before the first. */
  readonly superseded?: readonly { readonly name: string; readonly manifestDigest: string }[];
  /** Older versions than this do not count any more, because a copy of one may be removed already; absent before the first in a lineage. */
  readonly countsFrom?: number;
  /** The one that is being written in shards; absent while there is none. */
  readonly set?: ShardSet;
  /** It was said that a disk is full; until something is durable again. */
  readonly isFull?: true;
  /** It was said that too few hosts could have the wanted one. */
  readonly isShort?: true;
}
