/** Checkpoints, restoring from them, letting replicas go, and the end of the job. */
import type { GroupReceipt } from "@muster/protocol";
import { announce, type Change, type ControllerEffect, command } from "./events.ts";
import { pinsOf, purgedGroups } from "./fallback.ts";
import { ledgerOf, unsettleCovered, unsettleTrained } from "./ledger.ts";
import { isBeginningLost, keepersOf, recoveryOf, withoutLater } from "./memory.ts";
import type { KeptState } from "./memory-state.ts";
import { isFree } from "./plan-weights.ts";
import { type ControllerState, holdsCurrent, type Member, membersOf, type StepGroups, withMember } from "./state.ts";
import { isNearlyFull } from "./stream-room.ts";
import { rotated } from "./weight-sources.ts";

/** Marks the committed version as wanted when a checkpoint is due, and orders it from the checkpoint actors. Pure. */
export function planCheckpoint(state: ControllerState): Change<ControllerState> | null {
  const { plan, weights, checkpoints, step } = state;
  if (!weights || plan.checkpointReplicas === 0) return null;
  const committed = step.step - 1;
  const isDue =
    committed > 0 &&
    (checkpoints.saved?.step ?? 0) < committed &&
    (checkpoints.wantedStep ?? 0) < committed &&
    isCheckpointDue(state, committed);
  if (isDue) {
    const dueAtMs = state.nowMs + plan.timing.checkpointMs;
    return { state: { ...state, checkpoints: { ...checkpoints, wantedStep: committed, dueAtMs } }, effects: [] };
  }
  return checkpoints.wantedStep === committed ? orderCheckpoint(state, committed) : null;
}

function isCheckpointDue(state: ControllerState, committed: number): boolean {
  const { steps, checkpointEverySteps } = state.plan;
  // A groups stream that is full holds results back until a checkpoint lets the controller empty it.
  if (committed === steps || isLastLeaving(state) || state.heldBack || isNearlyFull(state)) return true;
  if (state.ending) return state.step.state === "sampling";
  return checkpointEverySteps > 0 && committed % checkpointEverySteps === 0;
}

function orderCheckpoint(state: ControllerState, step: number): Change<ControllerState> | null {
  const { weights, plan } = state;
  const trainers = membersOf(state, "policy").filter(
    (member) => holdsCurrent(state, member) && member.addresses.length > 0,
  );
  const holders = [...trainers, ...keepersOf(state, weights)];
  const savers = membersOf(state, "checkpoint").filter(
    (member) => isFree(state, member) && member.health === "healthy",
  );
  if (!weights || holders.length === 0 || savers.length === 0) return null;
  const { pending: _, ...ledger } = ledgerOf(state);
  const body = {
    step,
    lineage: weights.lineage,
    version: weights.version,
    sections: [...weights.sections],
    groupsWatermark: 0,
    ledger,
    ...pinsOf(state),
  };
  const order = {
    kind: "checkpoint.save",
    lineage: weights.lineage,
    version: weights.version,
    dueAtMs: state.nowMs + plan.timing.checkpointMs,
  } as const;
  return {
    state: savers.reduce((next, member) => withMember(next, member.id, { order }), state),
    effects: savers.map((member) => {
      const others = rotated(holders, member);
      // Who is the only one that holds it has it from itself.
      const sources = others.length > 0 ? others : holders;
      const named = sources.map(({ id, addresses }) => ({ id, addresses: [...addresses] }));
      return command(member, "checkpoint.save", { ...body, holders: named });
    }),
  };
}

/**
 * True when the only policy replicas that hold the state want to leave: it must be durable first, so training waits. Somebody who stays
 * and is making the commit live is about to hold it. Pure.
 */
export function isLastLeaving(state: ControllerState): boolean {
  const policies = membersOf(state, "policy");
  const holders = policies.filter((member) => holdsCurrent(state, member));
  const isNear = policies.some(({ health, order }) => health !== "draining" && order?.kind === "step.apply");
  const areLeaving = holders.length > 0 && holders.every(({ health }) => health === "draining");
  return areLeaving && !isNear && state.step.state === "sampling";
}

/**
 * When no living policy replica holds the committed state, goes back to the newest that is in memory, or in a checkpoint: a new lineage begins
 * there, and the steps since are run again from their stored trajectories (semantics 6.7). While a checkpoint actor has the committed version
 * itself nothing is lost: whoever comes pulls it from there. Pure.
 */
export function planRestore(state: ControllerState): Change<ControllerState> | null {
  const { weights } = state;
  if (state.ending || state.step.state === "running") return null;
  if (!weights) return isBeginningLost(state) ? recovered(state, "what was kept in memory is lost, too") : null;
  const policies = membersOf(state, "policy");
  if (policies.some((member) => holdsCurrent(state, member) || member.order?.kind === "step.apply")) return null;
  if (!policies.some(({ order, health }) => order?.kind !== "replica.stop" && health !== "draining")) return null;
  return recovered(state, `no policy replica holds version ${weights.version}`);
}

function recovered(state: ControllerState, reason: string): Change<ControllerState> | null {
  const recovery = recoveryOf(state);
  if (recovery.kind === "wait") return null;
  return goBack(state, reason, recovery.kind === "memory" ? recovery.kept : null);
}

/**
 * Begins a new lineage at the newest checkpoint, or at the job's first weights when there is none (S24); with `kept`, at that. Who doubts the
 * weights themselves goes back to a checkpoint, because what is in memory is as new as they are. Pure.
 */
export function goBack(state: ControllerState, reason: string, kept: KeptState | null = null): Change<ControllerState> {
  const { saved } = state.checkpoints;
  const lineage = (state.weights?.lineage ?? state.restore.lineage) + 1;
  const { step, version } = kept ?? saved ?? { step: 0, version: 0 };
  const detail = `${reason}; going back to step ${step}${kept ? ", kept in memory," : ""} in lineage ${lineage}`;
  return {
    state: {
      ...rollBack(state, step),
      weights: null,
      restore: { lineage, version, source: sourceOf(state, kept) },
    },
    effects: [announce("alarm.raised", { alarm: "rollback", detail })],
  };
}

function sourceOf(
  { plan, checkpoints, fallback }: ControllerState,
  kept: KeptState | null,
): ControllerState["restore"]["source"] {
  if (kept) return { kind: "memory", ...kept };
  const { saved } = checkpoints;
  if (!saved) return plan.weights;
  const copies = [saved, ...fallback.older].filter(({ path }) => path === saved.path).slice(0, 64);
  const known = copies.flatMap(({ manifestDigest }) => manifestDigest ?? []);
  const manifestDigests = known.length === copies.length ? [...new Set(known)] : [];
  return { kind: "checkpoint", path: saved.path, ...(manifestDigests.length > 0 ? { manifestDigests } : {}) };
}

/** Orders about the lost lineage are void: whoever still works on one gets a new order, which replaces it. */
function withoutOrders(state: ControllerState): ControllerState {
  const bound = Object.values(state.members).filter(
    ({ order }) => order !== null && order.kind !== "replica.stop" && order.kind !== "node.assign",
  );
  return bound.reduce((next, { id }) => withMember(next, id, { order: null, retryAtMs: state.nowMs }), state);
}

/**
 * Steps after `step` become pending again. Those that no checkpoint covered are sampled already: their receipts wait in the tables. Those that
 * one covered, which is of no use now, are sampled again.
 */
function rollBack(before: ControllerState, step: number): ControllerState {
  const state = withoutLater(withoutOrders(before), step);
  const again = Object.entries(state.history).filter(([key]) => Number(key) > step);
  const purged = Object.entries(state.fallback.covered).filter(([key]) => Number(key) > step);
  const groups = [
    ...purged.map(([key, covered]) => [key, purgedGroups(state, covered)] as const),
    ...again.map(([key, receipts]) => [key, sampledGroups(state, receipts)] as const),
  ];
  const ledger = purged.reduce((counts, [, covered]) => unsettleCovered(counts, covered), state.ledger);
  const upTo = <V>(table: Readonly<Record<string, V>>): Record<string, V> =>
    Object.fromEntries(Object.entries(table).filter(([key]) => Number(key) <= step));
  return {
    ...state,
    groups: { ...state.groups, ...Object.fromEntries(groups) },
    history: upTo(state.history),
    fallback: { ...state.fallback, covered: upTo(state.fallback.covered) },
    ledger: again.reduce((counts, [, receipts]) => unsettleTrained(counts, receipts), ledger),
    step: { ...state.step, step: step + 1, attempt: 1, failures: 0, state: "sampling", votes: {} },
    mesh: { ...state.mesh, state: "broken", dueAtMs: state.nowMs },
    evaluation: null,
    checkpoints: { ...state.checkpoints, wantedStep: null },
  };
}

/** Groups of a step that was run before: what has no receipt was given up then, and stays so. */
function sampledGroups(state: ControllerState, receipts: readonly GroupReceipt[]): StepGroups {
  const byIndex = Object.fromEntries(receipts.map((receipt) => [receipt.index, receipt]));
  const indices = Array.from({ length: state.plan.groupsPerStep }, (_, index) => index);
  return { queue: [], receipts: byIndex, quarantined: indices.filter((index) => !byIndex[index]) };
}

/** Lets draining replicas go as soon as nothing depends on them. Pure. */
export function planReleases(state: ControllerState): Change<ControllerState> | null {
  const leaving = Object.values(state.members).filter(
    (member) => member.health === "draining" && member.order?.kind !== "replica.stop" && mayLeave(state, member),
  );
  if (leaving.length === 0) return null;
  return stopMembers(state, leaving, "drained");
}

function mayLeave(state: ControllerState, member: Member): boolean {
  if (member.role === "node") return !Object.values(state.fleet.replicas).some(({ node }) => node === member.id);
  if (member.role === "checkpoint") return member.order === null && !isLastHolder(state, member);
  if (member.role === "rollout") return !Object.values(state.leases).some(({ holder }) => holder === member.id);
  if (state.mesh.members.includes(member.id) && state.mesh.state === "ready" && hasSuccessor(state, member))
    return false;
  return !state.weights || hasSuccessor(state, member) || isDurable(state);
}

function hasSuccessor(state: ControllerState, member: Member): boolean {
  return membersOf(state, "policy").some(
    (other) => other.id !== member.id && other.health !== "draining" && holdsCurrent(state, other),
  );
}

/** What nobody but a leaving checkpoint actor has is waited for a policy replica to take, for as long as that one gives itself. */
function isLastHolder(state: ControllerState, member: Member): boolean {
  const isHeld = membersOf(state, "policy").some((policy) => holdsCurrent(state, policy));
  const [first, ...others] = keepersOf(state, state.weights);
  return !state.ending && !isHeld && first?.id === member.id && others.length === 0;
}

function isDurable(state: ControllerState): boolean {
  const { saved } = state.checkpoints;
  const isSaved = saved !== null && saved.version === state.weights?.version;
  return state.step.state === "sampling" && (isSaved || membersOf(state, "checkpoint").length === 0);
}

/** Ends the job when its steps are committed, evaluated and durable, then releases everybody and stops. Pure. */
export function planEnd(state: ControllerState): Change<ControllerState> | null {
  const { plan, ending, step } = state;
  if (!ending) {
    if (step.step <= plan.steps || state.evaluation || !isEvaluated(state) || isResultOpen(state)) return null;
    const reason = isUnsaved(state) ? `all steps are committed, but ${notDurable(state)}` : "all steps are committed";
    return { state: { ...state, ending: { outcome: "done", reason, announced: false } }, effects: [] };
  }
  if (step.state === "running") return null;
  if (!ending.announced) return isCheckpointOpen(state) ? null : announceEnd(state);
  const members = Object.values(state.members);
  const isLate = state.nowMs >= state.endDueAtMs;
  const nodes = isLate || members.every(({ role }) => role === "node") ? nodesToStop(state) : [];
  const released = stopMembers(state, nodes, ending.reason);
  if ((members.length > 0 && !isLate) || state.stopped) return nodes.length > 0 ? released : null;
  return {
    state: { ...released.state, stopped: true },
    effects: [...released.effects, { type: "controller.stop", outcome: ending.outcome, reason: ending.reason }],
  };
}

/** Nodes go last: until then they look after the processes of their replicas. */
function nodesToStop(state: ControllerState): readonly Member[] {
  return membersOf(state, "node").filter(({ order }) => order?.kind !== "replica.stop");
}

function isEvaluated(state: ControllerState): boolean {
  return state.plan.evalPrompts === 0 || state.evaluatedVersion >= (state.weights?.version ?? 0);
}

function isCheckpointOpen(state: ControllerState): boolean {
  const { checkpoints, plan } = state;
  const isWanted = checkpoints.wantedStep !== null && checkpoints.wantedStep > (checkpoints.saved?.step ?? 0);
  return isWanted && plan.checkpointReplicas > 0 && state.nowMs < checkpoints.dueAtMs;
}

/** A checkpoint of the last weights was wanted and is not there. */
function isUnsaved({ checkpoints, plan, step }: ControllerState): boolean {
  const isWanted = step.step > plan.steps || checkpoints.wantedStep !== null;
  return plan.checkpointReplicas > 0 && isWanted && (checkpoints.saved?.step ?? 0) < step.step - 1;
}

function notDurable({ checkpoints, step, plan }: ControllerState): string {
  const { saved } = checkpoints;
  const newest = saved ? `the newest checkpoint is of step ${saved.step}` : "there is no checkpoint at all";
  return `the weights of step ${step.step - 1} could not be made durable within ${plan.timing.checkpointMs} ms: ${newest}`;
}

/** A job that ends without the checkpoint that it wanted does not end without a word on it. */
function unsavedAlarm(state: ControllerState): readonly ControllerEffect[] {
  return state.weights && isUnsaved(state)
    ? [announce("alarm.raised", { alarm: "checkpoint", detail: notDurable(state) })]
    : [];
}

/** The last weights are to be durable, or given up in time, before anybody goes: while they are not, they can still be made again. */
function isResultOpen(state: ControllerState): boolean {
  if (!state.weights) return true;
  const isHeld = membersOf(state, "policy").some((member) => holdsCurrent(state, member));
  const isSaved = (state.checkpoints.saved?.step ?? 0) >= state.plan.steps;
  return isCheckpointOpen(state) || (state.plan.checkpointReplicas > 0 && !isSaved && !isHeld);
}

function announceEnd(state: ControllerState): Change<ControllerState> {
  const { ending, plan } = state;
  if (!ending) return { state, effects: [] };
  const replicas = Object.values(state.members).filter(({ role }) => role !== "node");
  const stopped = stopMembers(state, replicas, ending.reason);
  return {
    state: { ...stopped.state, ending: { ...ending, announced: true }, endDueAtMs: state.nowMs + plan.timing.drainMs },
    effects: [...unsavedAlarm(state), ...endFact(state), ...stopped.effects],
  };
}

/** The public end of the job. */
function endFact(state: ControllerState): readonly ControllerEffect[] {
  const { ending, weights, step } = state;
  if (!ending) return [];
  const { outcome, reason } = ending;
  const body = {
    outcome,
    reason,
    step: step.step - 1,
    lineage: weights?.lineage ?? 0,
    version: weights?.version ?? 0,
    sections: [...(weights?.sections ?? [])],
    ledger: ledgerOf(state),
  };
  return [announce("job.ended", body)];
}

function stopMembers(state: ControllerState, members: readonly Member[], reason: string): Change<ControllerState> {
  const dueAtMs = state.nowMs + state.plan.timing.commandMs;
  const order = { kind: "replica.stop", lineage: 0, version: 0, dueAtMs } as const;
  const effects: ControllerEffect[] = members.map((member) => command(member, "replica.stop", { reason }));
  return { state: members.reduce((next, { id }) => withMember(next, id, { order }), state), effects };
}
