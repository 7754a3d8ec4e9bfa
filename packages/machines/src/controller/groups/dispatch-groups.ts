/** Which groups may be sampled now, and who samples them (semantics 2 "Staleness", 6.5). */
import type { WorkItem } from "@muster/protocol";
import type { VersionKey } from "../../version-key.ts";
import { noteBest } from "../checkpoints/best-checkpoint.ts";
import { announce, type Change, type ControllerEffect, command } from "../events.ts";
import { isCordoned } from "../fleet/fleet-state.ts";
import { crowd } from "../members/crowd.ts";
import { leaseShareOf } from "../members/paces.ts";
import { stalenessOf, stepsAheadMax } from "../settings.ts";
import { groupsIn, positionIn, stepsOf } from "../sizes.ts";
import { type ControllerState, holdsCurrent, type Member, type QueuedGroup, type StepGroups } from "../state.ts";
import { noteHeldOut } from "./held-out.ts";
import type { Evaluation } from "./held-out-state.ts";
import { idleSamplers, isSuspect } from "./idle-samplers.ts";
import { leaseIdOf, leasesOf, loadOf, type OwnLease, withLeases } from "./lease-table.ts";
import { workIdOf } from "./leases.ts";
import { innocentsIn, suspectsIn, withoutTaken } from "./queue.ts";
import { atOnceOf } from "./shortages.ts";

/** Most chunks of held-out prompts in one lease: what one message may name. */
const evalLeaseMax = 1_024;

/** Most groups in one lease, whatever the limits: what one message may name. */
const leaseItemsMax = 1_024;

/** Held-out prompts of one evaluation item. */
const evalChunkPrompts = 64;

/**
 * Admits the groups of every step that the staleness bound allows: the next step, and `stalenessMax` more. A group of step
 * *s* is sampled by weights that are at most `stalenessMax` versions older than those that step *s* will train. Pure.
 */
export function planAdmission(state: ControllerState): Change<ControllerState> | null {
  const { plan, step } = state;
  if (!state.weights || state.ending) return null;
  const last = Math.min(stepsOf(state), step.step + stepsAheadMax(state));
  const isDue = (number: number): boolean => number - step.step <= stalenessOf(state, number);
  const opened = range(step.step, last).filter((number) => !state.groups[number] && isDue(number));
  if (opened.length === 0) return null;
  const fresh = (size: number): StepGroups => ({
    queue: range(0, size - 1).map((index) => ({ index, attempt: 0 })),
    receipts: {},
    quarantined: [],
  });
  const made = opened.map((number) => [number, fresh(groupsIn(state, number))] as const);
  const groups = { ...state.groups, ...Object.fromEntries(made) };
  const count = made.reduce((sum, [, { queue }]) => sum + queue.length, 0);
  const admitted = state.ledger.admitted + count * plan.groupSize;
  return { state: { ...state, groups, ledger: { ...state.ledger, admitted } }, effects: [] };
}

/** Opens the evaluation that is due at the committed version, and closes the one that is complete. Pure. */
export function planEvaluation(state: ControllerState): Change<ControllerState> | null {
  const { plan, weights, evaluation, step } = state;
  if (evaluation) return closeEvaluation(state, evaluation);
  if (!weights || plan.evalPrompts === 0 || state.ending || state.evaluatedVersion >= weights.version) return null;
  const committed = step.step - 1;
  const steps = stepsOf(state);
  // What only trains samples nothing, but for the end: the next phase that samples begins with it.
  if (state.jobPhase?.phase === "update" && committed < steps) return null;
  // No step is the zeroth one of none: every 0 steps is never.
  const isDue = committed === 0 || committed === steps || committed % plan.evalEverySteps === 0;
  if (!isDue) return null;
  const chunks = Math.ceil(plan.evalPrompts / evalChunkPrompts);
  const queue = range(0, chunks - 1).map((chunk) => ({
    purpose: "eval" as const,
    chunk,
    from: chunk * evalChunkPrompts,
    count: Math.min(evalChunkPrompts, plan.evalPrompts - chunk * evalChunkPrompts),
  }));
  const opened: Evaluation = {
    version: weights.version,
    leasesBefore: state.leasesMade,
    queue,
    settled: [],
    attempts: {},
    chunks,
    prompts: 0,
    correct: 0,
  };
  return { state: { ...state, evaluation: opened }, effects: [] };
}

function closeEvaluation(state: ControllerState, run: Evaluation): Change<ControllerState> | null {
  if (run.settled.length < run.chunks) return null;
  const { version, prompts, correct } = run;
  const result = { version, prompts, correct };
  const noted = noteHeldOut({ ...state, evaluation: null, evaluatedVersion: version }, result);
  return noteBest({ state: noted.state, effects: [announce("eval.finished", result), ...noted.effects] });
}

/**
 * Leases work to the rollout replicas with room: held-out prompts first, then groups in order of step. A lease takes its fair
 * share of what is left, so leases shrink towards the end of a step and nobody waits long for the last one. Where all of a step goes out at once
 * anyway, each gets its whole share as one lease: fewer messages, and nobody has more or less of it. Pure.
 */
export function dispatchGroups(state: ControllerState): Change<ControllerState> | null {
  if (!state.weights || state.ending || !isWorkWaiting(state)) return null;
  const effects: ControllerEffect[] = [];
  const { weights, plan } = state;
  const ahead = stepsAheadMax(state);
  const idle = idleSamplers(
    state,
    ({ lineage, version }) => lineage === weights.lineage && version + ahead >= weights.version,
  );
  const begin: Begin = { groups: state.groups, idle: idle.length, version: weights.version };
  let next = state;
  for (let round = 0; round < plan.limits.leasesPerRollout; round++) {
    const made: OwnLease[] = [];
    for (const member of idle) {
      const leased = hasRoom(next, member, round + 1) ? leaseTo(next, member, begin) : null;
      if (!leased) continue;
      next = leased.state;
      made.push(leased.lease);
      effects.push(...leased.effects);
    }
    next = { ...next, leases: withLeases(next.leases, made) };
  }
  return effects.length > 0 ? { state: next, effects } : null;
}

/** True when something waits for a lease. Pure. */
export function isWorkWaiting({ evaluation, groups }: ControllerState): boolean {
  if (evaluation && evaluation.queue.length > 0) return true;
  return Object.values(groups).some(({ queue }) => queue.length > 0);
}

function hasRoom(state: ControllerState, member: Member, limit: number): boolean {
  if (isCordoned(state, member.id)) return false;
  if (member.health !== "healthy" || member.retryAtMs > state.nowMs || member.held?.lineage !== state.weights?.lineage)
    return false;
  const own = leasesOf(state, member.id);
  return loadOf(own, state.plan.limits.leaseGroupsMax) < limit && !own.some(([, { items }]) => items.some(isSuspect));
}

const noGroups: StepGroups = { queue: [], receipts: {}, quarantined: [] };

/** What waited, how many samplers had room, and the committed version, when leases began to be made. */
interface Begin {
  readonly groups: ControllerState["groups"];
  readonly idle: number;
  readonly version: number;
}

/** Who has weights. */
type Holder = Member & { readonly held: VersionKey };

const isHolder = (member: Member): member is Holder => member.held !== null;

/** Nobody gets two leases in one round, so the table takes all of a round at once. */
interface Leased extends Change<ControllerState> {
  readonly lease: OwnLease;
}

function leaseTo(state: ControllerState, member: Member, begin: Begin): Leased | null {
  if (!isHolder(member)) return null;
  const isTraining = state.jobPhase?.phase === "update";
  const taken = takeEval(state, member) ?? (isTraining ? null : takeGroups(state, member, begin));
  if (!taken) return null;
  const { leasesMade, term } = state;
  const leaseId = leaseIdOf(term, leasesMade + 1);
  const dueAtMs = state.nowMs + state.plan.timing.leaseMs;
  const { lineage, version } = member.held;
  const body = { leaseId, lineage, version, items: [...taken.items] };
  const { resumed } = taken;
  const fact =
    resumed.length > 0
      ? [announce("groups.resumed", { holder: member.id, items: resumed, tokens: savedOf(taken.items) })]
      : [];
  return {
    state: { ...taken.state, leasesMade: leasesMade + 1 },
    lease: [leaseId, { holder: member.id, items: taken.items, dueAtMs }],
    effects: [command(member, "groups.lease", body), ...fact],
  };
}

interface WorkSelection {
  readonly state: ControllerState;
  readonly items: readonly WorkItem[];
  /** Ids of what an earlier holder did not finish. */
  readonly resumed: string[];
}

function takeEval(state: ControllerState, member: Holder): WorkSelection | null {
  const run = state.evaluation;
  // Nothing is trained meanwhile: what is current is what is evaluated.
  if (!run || run.queue.length === 0 || !holdsCurrent(state, member)) return null;
  const share = Math.ceil(run.queue.length / (2 * Math.max(1, crowd.of(state.members).workers)));
  const size = Math.min(evalLeaseMax, Math.max(1, share));
  const items = run.queue.slice(0, size);
  const resumed = items.filter(({ chunk }) => (run.attempts[chunk] ?? 0) > 0).map(workIdOf);
  return { state: { ...state, evaluation: { ...run, queue: run.queue.slice(size) } }, items, resumed };
}

function takeGroups(state: ControllerState, member: Holder, begin: Begin): WorkSelection | null {
  const { step } = state;
  const behind = begin.version - member.held.version;
  const last = Math.min(stepsOf(state), step.step + stepsAheadMax(state));
  for (let number = step.step; number <= last; number++) {
    // Older weights than the step may train on would be for nothing.
    if (behind + number - step.step > stalenessOf(state, number)) continue;
    const groups = state.groups[number];
    const waiting = groups ? (soloFor(state, member, groups) ?? shareOf(state, member, number, begin)) : [];
    if (groups && waiting.length > 0) return taken(state, number, waiting);
  }
  return null;
}

/** The first suspect that this replica may have; `null` when it should look for other work. */
function soloFor(state: ControllerState, member: Member, groups: StepGroups): readonly QueuedGroup[] | null {
  if (suspectsIn(groups.queue) === 0 || leasesOf(state, member.id).length > 0) return null;
  // Who has room is one of them.
  const isAlone = crowd.of(state.members).workers === 1;
  const found = groups.queue.find(
    ({ attempt, last, dueAtMs = 0 }) => attempt > 0 && dueAtMs <= state.nowMs && (last !== member.id || isAlone),
  );
  return found ? [found] : null;
}

/** A fair share of the groups that nobody failed over; a slow replica gets less. */
function shareOf(state: ControllerState, member: Member, step: number, begin: Begin): readonly QueuedGroup[] {
  const { plan } = state;
  const { queue } = state.groups[step] ?? noGroups;
  const innocent = queue.length - suspectsIn(queue);
  const whole = wholeShareOf(state, member, groupsIn(state, step));
  const { queue: before } = begin.groups[step] ?? noGroups;
  const isForAll = whole !== null && before.length - suspectsIn(before) >= Math.floor(whole) * begin.idle;
  if (isForAll) return innocentsIn(queue, Math.ceil(whole));
  const share = Math.ceil(innocent / (2 * Math.max(1, crowd.of(state.members).workers)));
  const fair = Math.min(plan.limits.leaseGroupsMax, Math.max(share, Math.ceil(plan.limits.chunkGroups / 2)));
  const size = Math.max(1, Math.round(fair * leaseShareOf(state, member)));
  // A holder draws no more in one go than a lease has.
  const most = state.shortages[member.id] ? atOnceOf(state, member.id) : size;
  return innocentsIn(queue, Math.min(size, most));
}

/**
 * What a sampler gets of a step when it has as much room as that takes, and no more; `null` when it gets several leases, one after the other. What one draws
 * more slowly than the others is given out in portions.
 */
function wholeShareOf(state: ControllerState, member: Member, size: number): number | null {
  const { leaseGroupsMax, leasesPerRollout } = state.plan.limits;
  const whole = size / Math.max(1, crowd.of(state.members).workers);
  const fills = Math.ceil(whole / leaseGroupsMax) === leasesPerRollout && leasesPerRollout > 1;
  if (!fills || whole > leaseItemsMax || leasesOf(state, member.id).length > 0) return null;
  return state.shortages[member.id] || leaseShareOf(state, member) < 1 ? null : whole;
}

function taken(state: ControllerState, step: number, waiting: readonly QueuedGroup[]): WorkSelection | null {
  const groups = state.groups[step];
  if (!groups) return null;
  const items = waiting.map(({ index, attempt, partial }): WorkItem => {
    const item = { purpose: "train" as const, step, index, attempt, ...positionIn(state, step, index) };
    return partial ? { ...item, partial } : item;
  });
  const rest: StepGroups = { ...groups, queue: withoutTaken(groups.queue, waiting) };
  const resumed = waiting.filter(({ last }) => last).map(({ index }) => `${step}.${index}`);
  return { state: { ...state, groups: { ...state.groups, [step]: rest } }, items, resumed };
}

/** Tokens that earlier holders drew and saved. Pure. */
function savedOf(items: readonly WorkItem[]): number {
  return items.reduce((sum, item) => sum + (item.purpose === "train" ? (item.partial?.tokens ?? 0) : 0), 0);
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i);
}
