/** The part of the controller's tables that is about the step that is next to commit, and what it is computed from. */
import type { BatchPart, GroupReceipt, Section, StepStats } from "@muster/protocol";
import type { AtMs } from "../at-ms.ts";
import type { OutsideLosses } from "../groups/outside-losses-state.ts";

/** A member's word on a step. */
export interface Vote {
  readonly vote: "commit" | "abort";
  readonly finite: boolean;
  readonly sections: readonly Section[];
  readonly stats: StepStats | null;
  readonly cause: string;
  /** Members that it missed in a collective. */
  readonly missing: readonly string[];
  /** Of its candidate's weights; only where trainers may drift. */
  readonly sketch?: readonly number[];
  /** Groups of the batch that it could not read. */
  readonly unreadable?: BatchPart[];
}

/** The step that is next to commit. */
export interface StepRun {
  readonly step: number;
  readonly attempt: number;
  /** Attempts that failed for a reason other than a lost member; at the limit the job fails. */
  readonly failures: number;
  /** Attempts that ended because groups of the batch could not be read. */
  readonly unreadable?: number;
  readonly state: "sampling" | "running";
  readonly votes: Readonly<Record<string, Vote>>;
  readonly startedAtMs: AtMs;
  readonly dueAtMs: AtMs;
}

/** Attempts at one step that lost a trainer, and how trainers ended meanwhile. */
export interface LostAttempts {
  readonly count: number;
  /** The last ones, the newest last. */
  readonly causes: readonly string[];
  /** Trainers of the mesh that ended while the step was next. */
  readonly ended?: number;
  /** When those ended that may have been lost by something from outside; the last ones. */
  readonly outside?: readonly AtMs[];
  /** Who ended last. */
  readonly last?: string;
  /** The last attempt was lost, and nothing is concluded from it yet: who ended in it may be heard of later. */
  readonly isOpen?: boolean;
  readonly search?: Search;
  /** How often the last trainer was not given up because of it. */
  readonly spared?: number;
}

/** A search among the groups of a step for the one that ends its trainers. */
export interface Search {
  /** Indices of groups, one of which may be it. */
  readonly suspects: readonly number[];
  /** Those of them that are computed now. */
  readonly trial: readonly number[];
  /** How often trainers ended over the trial when it was a single group. */
  readonly alone: number;
  /** Those of these times that may have a cause outside of it. */
  readonly outside?: OutsideLosses;
  /** A trainer ended in this trial in a way that nothing from outside explains. */
  readonly isCrash?: boolean;
  /** {@link LostAttempts.ended} when the trial began. */
  readonly endedBefore: number;
}

/** The receipt of a group and who gave it. */
export interface KeptReceipt extends GroupReceipt {
  readonly by?: string;
}

/** How many results were of no use, by why. */
export interface Dropped {
  readonly duplicate: number;
  readonly stale: number;
  readonly refused?: number;
  readonly unreadable?: number;
  /** Results of open groups from samplers that never had them. */
  readonly unasked?: number;
  /** Said under the name of a member, and not by it. */
  readonly forged?: number;
}

/** Bytes of a stream, held and allowed; `null` when nothing bounds it. */
export interface Fill {
  readonly bytes: number;
  readonly bytesMax: number | null;
  /** The newest message that it had taken; absent in journals of programs that did not say it. */
  readonly lastSeq?: number;
}

/** The same, and when it was seen. */
export interface FillReading extends Fill {
  readonly atMs?: AtMs;
}

/** What those say of an epoch who could not join it. */
export interface FailedEpoch {
  readonly reporters: readonly string[];
  /** How many of them missed a member, by id. */
  readonly missed: Readonly<Record<string, number>>;
}
