/**
 * The controller's state: plain JSON, the fold of the journal. Tables are keyed by id and copied on write, so an old snapshot
 * stays what it was. Times are the acting controller's monotonic milliseconds and are rebased at each election.
 */
import type {
  Body,
  CauseCount,
  ChangedSettings,
  EngineSaid,
  MemberRole,
  PartialGroup,
  Section,
  WorkItem,
} from "@muster/protocol";
import { valuesOf, withEntry, withoutEntry } from "../table/table.ts";
import type { VersionKey } from "../version-key.ts";
import type { AtMs } from "./at-ms.ts";
import type { Barriers } from "./barriers/barriers-state.ts";
import type { Checkpoints, Fallback } from "./checkpoints/checkpoints-state.ts";
import { type FleetState, initialFleet } from "./fleet/fleet-state.ts";
import type { Evaluation, HeldOut } from "./groups/held-out-state.ts";
import type { OutsideLosses } from "./groups/outside-losses-state.ts";
import { crowd } from "./members/crowd.ts";
import type { Member } from "./members/member.ts";
import type { JobPhase } from "./phases/phase-state.ts";
import type { ControllerPlan } from "./plan.ts";
import type { Dropped, FailedEpoch, FillReading, KeptReceipt, LostAttempts, StepRun } from "./step/step-state.ts";
import type { Beginning } from "./weights/memory-state.ts";

export type { Checkpoints, CoveredStep, Fallback, KeptCheckpoint } from "./checkpoints/checkpoints-state.ts";
export type { Member } from "./members/member.ts";
export type { Order } from "./order.ts";
export type { KeptReceipt, LostAttempts, StepRun, Vote } from "./step/step-state.ts";

/** The policy mesh. `broken`: a collective of this epoch was aborted, so the epoch cannot be used again. */
export interface Mesh {
  readonly epoch: number;
  readonly members: readonly string[];
  readonly state: "none" | "building" | "ready" | "broken";
  /** Arrivals when it was made: whoever arrived later under the id of a member is another life, and no rank of it. */
  readonly joins: number;
  readonly built: readonly string[];
  readonly dueAtMs: AtMs;
  /** Until then joiners are gathered for the next epoch; `null` while nobody waits. */
  readonly joinDueAtMs: AtMs | null;
  /** What is said of an epoch that failed; absent while nobody says anything. */
  readonly failed?: FailedEpoch;
  /** By id: epochs in a row in which most of the others missed a member. Absent while there are none. */
  readonly absences?: Readonly<Record<string, number>>;
  /** By id: what members said of their engines when they joined this epoch, or the one before that stood. Absent while nobody says anything. */
  readonly engines?: Readonly<Record<string, EngineSaid>>;
  /** What all of an epoch computed with that stood; kept as long as one stays who said so. */
  readonly fingerprint?: string;
}

/** A group that waits for a lease. */
export interface QueuedGroup {
  readonly index: number;
  /** How often a holder failed over it. One that failed is leased alone, so that the next failure is surely its own. */
  readonly attempt: number;
  /** Who had it last and did not finish it; it goes to somebody else. */
  readonly last?: string;
  /** Not leased again before this time. */
  readonly dueAtMs?: AtMs;
  /** What is begun of it. */
  readonly partial?: PartialGroup;
}

/** The groups of one step: what waits for a lease, and what is settled. */
export interface StepGroups {
  readonly queue: readonly QueuedGroup[];
  readonly receipts: Readonly<Record<string, KeptReceipt>>;
  /** Indices given up after too many attempts. */
  readonly quarantined: readonly number[];
  /** By index: who had it on a lease that ended without a result; the last ones. */
  readonly former?: Readonly<Record<string, readonly string[]>>;
  /** By index: holders that were lost, maybe by something from outside; absent before the first. */
  readonly outside?: Readonly<Record<string, OutsideLosses>>;
}

/** Work given to a rollout replica for a time. */
export interface Lease {
  readonly holder: string;
  readonly items: readonly WorkItem[];
  readonly dueAtMs: AtMs;
  /** Attempts that the holder has computed and can not store for want of room: what ends it is not their fault. */
  readonly done?: readonly string[];
}

/** A member's time in one step: within the usual spread, beyond it, or at least twice the median. */
export type StepPace = "even" | "slow" | "twice";

/** What is known of a member's speed. */
export interface Pace {
  readonly incarnation: string;
  /** Smoothed time for one group; `null` for trainers, and before the first group. */
  readonly msPerGroup: number | null;
  /** The last steps, the newest last. */
  readonly steps: readonly StepPace[];
  readonly isReported: boolean;
}

/** What is remembered of a replica that was evicted: the n-th time within an hour it stays out for a while. */
export interface Eviction {
  readonly times: readonly AtMs[];
  readonly untilMs: AtMs;
  /** Its successor waits although it has ended: what was wrong was not the process. */
  readonly isHeld?: boolean;
  /** The process that was evicted; once it has ended, its successor need not wait. */
  readonly host: string;
  readonly pid: number;
}

/** Ends of a replica's lives that nobody saw. */
export interface Restarts {
  readonly times: readonly AtMs[];
  /** The process that ended last; 0 when its end was seen after all. */
  readonly host: string;
  readonly pid: number;
}

/** A registration that waits until its replica may come back. */
export interface Waiting {
  readonly incarnation: string;
  readonly body: Body<"replica.register">;
}

/** Counts of trajectories; what is pending is derived from the tables, so that the sum is a real check. */
export interface LedgerCounts {
  readonly admitted: number;
  readonly trained: number;
  readonly aborted: number;
  readonly quarantined: number;
}

/** Trajectories that were given up lately, and why: what the ceiling is about (semantics 3 and 6.13). */
export interface GivenUp {
  /** Newest last; together they hold at least the window of trajectories once there were that many. */
  readonly recent: readonly { readonly trajectories: number; readonly givenUp: number }[];
  /** Given-up trajectories in a row with one root cause. */
  readonly run: { readonly key: string; readonly count: number };
  /** Root causes, the most frequent kept when there are too many. */
  readonly causes: readonly CauseCount[];
  /** A ceiling was passed and said; said again only after the share was below it. */
  readonly alarmed: boolean;
}

/** When the job last moved on: a committed step, a finished group, a piece of evaluation, or somebody who was missing came. */
export interface Progress {
  readonly atMs: AtMs;
  /** What the watchdog did since. */
  readonly stage: number;
  /** Time without a committed step or a finished group before `atMs`, in which nobody was missing. */
  readonly spentMs?: number;
  /** Somebody is missing without whom the job can not go on: no time counts. */
  readonly isShort: boolean;
}

/** The whole state. */
export interface ControllerState {
  readonly plan: ControllerPlan;
  readonly term: number;
  readonly nowMs: AtMs;
  readonly joins: number;
  readonly leasesMade: number;
  /** Build of the first trainer's engine that registered; others are refused. */
  readonly engineBuild: string | null;
  /** The same of the samplers; absent until one registered. */
  readonly samplerBuild?: string;
  readonly members: Readonly<Record<string, Member>>;
  /** The last incarnations that died or left: none of them comes back, however late its words arrive. */
  readonly gone: readonly string[];
  /** By replica id; the last ones only. */
  readonly evictions: Readonly<Record<string, Eviction>>;
  readonly waiting: Readonly<Record<string, Waiting>>;
  /** By id of a replica without a node; the last ones only, absent before the first. */
  readonly restarts?: Readonly<Record<string, Restarts>>;
  readonly progress: Progress;
  /** Where weights come from when there are none: the job's source at first, memory or a checkpoint after every holder was lost. */
  readonly restore: VersionKey & { readonly source: Beginning };
  /** Digest of the model's tensor table. */
  readonly tensorsDigest: string | null;
  /** Newest committed weights. */
  readonly weights: (VersionKey & { readonly sections: readonly Section[] }) | null;
  readonly mesh: Mesh;
  readonly step: StepRun;
  /** The last commit, as it was ordered; sent again to members that do not answer. */
  readonly applied: Body<"step.apply"> | null;
  /** Groups by step, for the steps that may be sampled now. */
  readonly groups: Readonly<Record<string, StepGroups>>;
  /** Receipts of committed steps that no checkpoint covers yet: what a rollback trains again. */
  readonly history: Readonly<Record<string, readonly KeptReceipt[]>>;
  /** Messages of the groups stream below this sequence may be gone. */
  readonly purgedSeq: number;
  readonly leases: Readonly<Record<string, Lease>>;
  /** Since when, and for how long at least, a full groups stream holds results back; `null`, or absent, when it does not. */
  readonly heldBack?: { readonly sinceMs: AtMs; readonly untilMs: AtMs } | null;
  /** How often stored results were given up so that a step has room; absent before that. */
  readonly roomMade?: { readonly step: number; readonly times: number };
  /** How full the groups stream was when it was told last; absent before that. */
  readonly groupsFill?: FillReading;
  /** Groups that were finished so far, and their tokens: what a group costs on average. */
  readonly sampled: { readonly groups: number; readonly tokens: number };
  readonly evaluation: Evaluation | null;
  readonly evaluatedVersion: number;
  /** How good the job was at held-out prompts; absent before the first evaluation. */
  readonly heldOut?: HeldOut;
  readonly checkpoints: Checkpoints;
  readonly fallback: Fallback;
  readonly ledger: LedgerCounts;
  /** How fast members are, by id. */
  readonly paces: Readonly<Record<string, Pace>>;
  /** Attempts that lost a trainer, by step, for steps that are not committed. */
  readonly losses?: Readonly<Record<string, LostAttempts>>;
  /** When members were lost, maybe by something from outside and not over a suspect; the last ones, absent before the first. */
  readonly outsideLosses?: readonly AtMs[];
  /** Of the last steps those in which a trainer computed other weights than the majority, by id. */
  readonly divergences?: Readonly<Record<string, readonly number[]>>;
  /** How often a sampler was short of memory, by id. */
  readonly shortages: Readonly<Record<string, number>>;
  /** Results that came twice or too late, that can not be true, or that nobody can read; dropped and counted. */
  readonly dropped: Dropped;
  readonly givenUp: GivenUp;
  /** Steps in a row, without a commit between them, whose loss or gradient was not finite. */
  readonly nonFiniteInRow: number;
  /**
   * The step at which the job went back to a checkpoint because it could not get on from where it was, until a later one is committed. It does
   * so once: whatever comes to the same again ends the job.
   */
  readonly wentBackAt: number | null;
  readonly ending: {
    readonly outcome: "done" | "stopped" | "failed";
    readonly reason: string;
    readonly announced: boolean;
  } | null;
  readonly endDueAtMs: AtMs;
  readonly stopped: boolean;
  readonly fleet: FleetState;
  /** The different engines that samplers of the job ever had, in the order in which they came; absent while nobody says one. */
  readonly samplerEngines?: readonly EngineSaid[];
  /** What operators changed, in the order in which they did; absent before the first change. */
  readonly changes?: readonly ChangedSettings[];
  /** What the job does where it does not do both: sample and train. */
  readonly jobPhase?: JobPhase;
  /** Where scripts wait for each other between their phases; absent before the first arrival. */
  readonly barriers?: Barriers;
}

/** State before the first record. Pure. */
export function initialControllerState(plan: ControllerPlan): ControllerState {
  return {
    plan,
    term: 0,
    nowMs: 0,
    joins: 0,
    leasesMade: 0,
    engineBuild: null,
    members: {},
    gone: [],
    evictions: {},
    waiting: {},
    // no mutant: the first election sets it
    progress: { atMs: 0, stage: 0, isShort: false },
    restore: { lineage: 0, version: 0, source: plan.weights },
    tensorsDigest: null,
    weights: null,
    mesh: { epoch: 0, members: [], state: "none", joins: 0, built: [], dueAtMs: 0, joinDueAtMs: null },
    step: { step: 1, attempt: 1, failures: 0, state: "sampling", votes: {}, startedAtMs: 0, dueAtMs: 0 },
    applied: null,
    groups: {},
    history: {},
    purgedSeq: 0,
    leases: {},
    sampled: { groups: 0, tokens: 0 },
    evaluation: null,
    evaluatedVersion: -1,
    checkpoints: { wantedStep: null, dueAtMs: 0, saved: null, failures: 0 },
    fallback: { older: [], damaged: [], covered: {} },
    ledger: { admitted: 0, trained: 0, aborted: 0, quarantined: 0 },
    paces: {},
    shortages: {},
    dropped: { duplicate: 0, stale: 0 },
    givenUp: { recent: [], run: { key: "", count: 0 }, causes: [], alarmed: false },
    nonFiniteInRow: 0,
    wentBackAt: null,
    ending: null,
    endDueAtMs: 0,
    stopped: false,
    fleet: initialFleet(plan.replicas),
  };
}

type Roll = Map<MemberRole, readonly Member[]>;

/** The roll of each table that somebody asked about. All planners ask, and a table never changes. */
const rolls = new WeakMap<ControllerState["members"], Roll>();

/** Members of a role in order of arrival. Of samplers there may be thousands: who asks after every input asks the {@link crowd}. */
export function membersOf({ members }: ControllerState, role: MemberRole): readonly Member[] {
  const roll: Roll = rolls.get(members) ?? new Map();
  // no mutant: what is not kept is counted again
  rolls.set(members, roll);
  const known = roll.get(role);
  if (known) return known;
  const own = crowd.select(
    members,
    // no mutant: where nobody has the role, nobody is found
    ({ count }) => count[role] > 0,
    (member) => member.role === role,
  );
  own.sort((a, b) => a.joinedSeq - b.joinedSeq);
  // no mutant: what is not kept is counted again
  roll.set(role, own);
  return own;
}

/** Members of all roles, in the order of their table. */
export function allMembersOf({ members }: ControllerState): readonly Member[] {
  return valuesOf(members);
}

/** How many members a role has. */
export function countOf({ members }: ControllerState, role: MemberRole): number {
  return crowd.of(members).count[role];
}

/** Members of the mesh that live; a new life under an old id is not one of them. */
export function meshMembersOf(state: ControllerState): readonly Member[] {
  const { members, joins } = state.mesh;
  return members.flatMap((id) => {
    const member = state.members[id];
    return member && member.joinedSeq <= joins ? member : [];
  });
}

/** The state with one member changed; unchanged when it is not in the table. */
export function withMember(state: ControllerState, id: string, patch: Partial<Member>): ControllerState {
  const member = state.members[id];
  return member ? { ...state, members: withEntry(state.members, id, { ...member, ...patch }) } : state;
}

/** A state in which the job ends; that is said when nothing is on its way any more. Pure. */
export function endingWith(
  state: ControllerState,
  outcome: NonNullable<ControllerState["ending"]>["outcome"],
  reason: string,
): ControllerState {
  return { ...state, ending: { outcome, reason, announced: false } };
}

/** A state that knows of one more report which came too late, or from somebody who has no say. Pure. */
export function withStale(state: ControllerState): ControllerState {
  const { dropped } = state;
  return { ...state, dropped: { ...dropped, stale: dropped.stale + 1 } };
}

/** True when a member acknowledged the digests of the newest committed weights. */
export function holdsCurrent(state: ControllerState, member: Member): boolean {
  return (
    state.weights !== null &&
    member.held?.version === state.weights.version &&
    member.held.lineage === state.weights.lineage
  );
}

/** A record without one key. */
export const without = withoutEntry;
