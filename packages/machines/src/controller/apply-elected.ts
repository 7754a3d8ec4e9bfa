/**
 * The first record of a term. Times of the former controller mean nothing here, so every deadline starts anew; orders that may never
 * have left are sent again, and receivers know them by their ids. Suspicions end too: the new controller's failure detector knows nothing
 * of them, so it would never take them back.
 */
import { announce, type Change, type ControllerEffect, command, type ElectedEvent } from "./events.ts";
import { runBodyOf } from "./plan-step.ts";
import { type ControllerState, type Member, meshMembersOf, type StepGroups } from "./state.ts";

/** Takes over: rebases every time and repeats what is outstanding. Pure. */
export function applyElected(state: ControllerState, event: ElectedEvent): Change<ControllerState> {
  const { plan } = state;
  const nowMs = event.atMs;
  const members = Object.values(state.members).map((member): [string, Member] => [
    member.id,
    {
      ...member,
      health: trusted(member.health),
      retryAtMs: nowMs,
      unanswered: 0,
      order: member.order && { ...member.order, dueAtMs: nowMs },
    },
  ]);
  const leases = Object.entries(state.leases).map(([id, lease]) => [
    id,
    { ...lease, dueAtMs: nowMs + plan.timing.leaseMs },
  ]);
  const groups = Object.entries(state.groups).map(([step, entry]): [string, StepGroups] => [
    step,
    { ...entry, queue: entry.queue.map(({ dueAtMs: _, ...waiting }) => waiting) },
  ]);
  const next: ControllerState = {
    ...state,
    groups: Object.fromEntries(groups),
    term: event.term,
    nowMs,
    members: Object.fromEntries(members),
    leases: Object.fromEntries(leases),
    mesh: { ...state.mesh, dueAtMs: nowMs + plan.timing.meshMs, joinDueAtMs: null },
    step: { ...state.step, startedAtMs: nowMs, dueAtMs: nowMs + plan.timing.stepMs },
    checkpoints: { ...state.checkpoints, dueAtMs: nowMs + plan.timing.checkpointMs },
    endDueAtMs: nowMs + plan.timing.drainMs,
    fleet: { ...state.fleet, shortage: state.fleet.shortage && { ...state.fleet.shortage, sinceMs: nowMs } },
  };
  const started = announce("job.started", {
    term: event.term,
    steps: plan.steps,
    seed: plan.seed,
  });
  const recovered = Object.values(state.members)
    .filter(({ health }) => health === "suspect")
    .map(({ id, role, incarnation }) => announce("member.recovered", { id, role, incarnation }));
  return { state: next, effects: [started, ...recovered, ...repeated(next)] };
}

function trusted(health: Member["health"]): Member["health"] {
  return health === "suspect" ? "healthy" : health;
}

/** Re-admits everybody under the new term and repeats leases, mesh orders and the order for the running step. */
function repeated(state: ControllerState): readonly ControllerEffect[] {
  const admitted = Object.values(state.members).map(
    ({ id, incarnation }) => ({ type: "admit", to: id, incarnation }) as const,
  );
  const leases = Object.entries(state.leases).flatMap(([leaseId, { holder, items }]) => {
    const member = state.members[holder];
    if (!member?.held) return [];
    const { lineage, version } = member.held;
    return [command(member, "groups.lease", { leaseId, lineage, version, items: [...items] })];
  });
  const { mesh } = state;
  const ranks = meshMembersOf(state).map(({ id, incarnation }) => ({ id, incarnation }));
  const builds =
    mesh.state === "building" && ranks.length === mesh.members.length
      ? ranks.map((member) => command(member, "mesh.build", { epoch: mesh.epoch, members: ranks }))
      : [];
  return [...admitted, ...leases, ...builds, ...repeatedStep(state)];
}

function repeatedStep(state: ControllerState): readonly ControllerEffect[] {
  const { step, weights } = state;
  if (step.state !== "running" || !weights) return [];
  const silent = meshMembersOf(state).filter(({ id }) => !step.votes[id]);
  return silent.map((member) => command(member, "step.run", runBodyOf(state, weights)));
}
