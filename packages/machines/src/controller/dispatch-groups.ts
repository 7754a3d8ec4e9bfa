/** Which groups may be sampled now, and who samples them (semantics 2 "Staleness", 6.5). */
import type { WorkItem } from "@muster/protocol";
import { announce, type Change, type ControllerEffect, command } from "./events.ts";
import { workIdOf } from "./leases.ts";
import {
  type ControllerState,
  type Evaluation,
  holdsCurrent,
  type Member,
  membersOf,
  type StepGroups,
} from "./state.ts";

/** Held-out prompts of one evaluation item. */
const evalChunkPrompts = 64;

/**
 * Admits the groups of every step that the staleness bound allows: the next step, and `stalenessMax` more. A group of step
 * *s* is sampled by weights that are at most `stalenessMax` versions older than those that step *s* will train. Pure.
 */
export function planAdmission(state: ControllerState): Change<ControllerState> | null {
  const { plan, step } = state;
  if (!state.weights || state.ending) return null;
  const last = Math.min(plan.steps, step.step + plan.stalenessMax);
  const opened = range(step.step, last).filter((number) => !state.groups[number]);
  if (opened.length === 0) return null;
  const fresh: StepGroups = {
    queue: range(0, plan.groupsPerStep - 1).map((index) => ({ index, attempt: 0 })),
    receipts: {},
    quarantined: [],
  };
  const groups = { ...state.groups, ...Object.fromEntries(opened.map((number) => [number, fresh])) };
  const admitted = state.ledger.admitted + opened.length * plan.groupsPerStep * plan.groupSize;
  return { state: { ...state, groups, ledger: { ...state.ledger, admitted } }, effects: [] };
}

/** Opens the evaluation that is due at the committed version, and closes the one that is complete. Pure. */
export function planEvaluation(state: ControllerState): Change<ControllerState> | null {
  const { plan, weights, evaluation, step } = state;
  if (evaluation) return closeEvaluation(state, evaluation);
  if (!weights || plan.evalPrompts === 0 || state.ending || state.evaluatedVersion >= weights.version) return null;
  const committed = step.step - 1;
  const isDue =
    committed === 0 || committed === plan.steps || (plan.evalEverySteps > 0 && committed % plan.evalEverySteps === 0);
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
  return {
    state: { ...state, evaluation: null, evaluatedVersion: version },
    effects: [announce("eval.finished", { version, prompts, correct })],
  };
}

/**
 * Leases work to the rollout replicas with room: held-out prompts first, then groups in order of step. A lease takes its fair
 * share of what is left, so leases shrink towards the end of a step and nobody waits long for the last one. Pure.
 */
export function dispatchGroups(state: ControllerState): Change<ControllerState> | null {
  if (!state.weights || state.ending) return null;
  const effects: ControllerEffect[] = [];
  let next = state;
  for (let round = 0; round < state.plan.limits.leasesPerRollout; round++) {
    for (const member of membersOf(next, "rollout")) {
      if (!hasRoom(next, member, round + 1)) continue;
      const leased = leaseTo(next, member);
      if (!leased) continue;
      next = leased.state;
      effects.push(...leased.effects);
    }
  }
  return effects.length > 0 ? { state: next, effects } : null;
}

function hasRoom(state: ControllerState, member: Member, limit: number): boolean {
  if (member.health !== "healthy" || member.retryAtMs > state.nowMs || member.held?.lineage !== state.weights?.lineage)
    return false;
  return Object.values(state.leases).filter(({ holder }) => holder === member.id).length < limit;
}

function leaseTo(state: ControllerState, member: Member): Change<ControllerState> | null {
  const taken = takeEval(state, member) ?? takeGroups(state, member);
  if (!taken || !member.held) return null;
  const { leasesMade, term } = state;
  const leaseId = `${term}-${leasesMade + 1}`;
  const dueAtMs = state.nowMs + state.plan.timing.leaseMs;
  const leases = { ...state.leases, [leaseId]: { holder: member.id, items: taken.items, dueAtMs } };
  const { lineage, version } = member.held;
  const body = { leaseId, lineage, version, items: [...taken.items] };
  const resumed = taken.items.filter((item) => isResumed(state, item)).map(workIdOf);
  const fact = resumed.length > 0 ? [announce("groups.resumed", { holder: member.id, items: resumed })] : [];
  return {
    state: { ...taken.state, leases, leasesMade: leasesMade + 1 },
    effects: [command(member, "groups.lease", body), ...fact],
  };
}

/** True for work that an earlier holder did not finish. */
function isResumed(state: ControllerState, item: WorkItem): boolean {
  return item.purpose === "eval" ? (state.evaluation?.attempts[item.chunk] ?? 0) > 0 : item.attempt > 0;
}

interface Taken {
  readonly state: ControllerState;
  readonly items: readonly WorkItem[];
}

function takeEval(state: ControllerState, member: Member): Taken | null {
  const run = state.evaluation;
  if (!run || run.queue.length === 0 || member.held?.version !== run.version || !holdsCurrent(state, member))
    return null;
  const size = Math.max(1, Math.ceil(run.queue.length / (2 * ready(state))));
  return { state: { ...state, evaluation: { ...run, queue: run.queue.slice(size) } }, items: run.queue.slice(0, size) };
}

function takeGroups(state: ControllerState, member: Member): Taken | null {
  const { plan, step, weights } = state;
  const held = member.held?.version ?? 0;
  const newest = held + plan.stalenessMax - (weights?.version ?? 0) + step.step;
  const open = range(step.step, Math.min(plan.steps, newest)).filter((number) => state.groups[number]?.queue.length);
  const first = open[0];
  const groups = first === undefined ? undefined : state.groups[first];
  if (first === undefined || !groups) return null;
  const share = Math.ceil(groups.queue.length / (2 * ready(state)));
  const size = Math.min(plan.limits.leaseGroupsMax, Math.max(share, Math.ceil(plan.limits.chunkGroups / 2)));
  const items = groups.queue
    .slice(0, size)
    .map(({ index, attempt }) => ({ purpose: "train" as const, step: first, index, attempt }));
  const rest: StepGroups = { ...groups, queue: groups.queue.slice(size) };
  return { state: { ...state, groups: { ...state.groups, [first]: rest } }, items };
}

/** Rollout replicas that can work now; at least 1. */
function ready(state: ControllerState): number {
  return Math.max(1, membersOf(state, "rollout").filter(({ health, held }) => health === "healthy" && held).length);
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i);
}
