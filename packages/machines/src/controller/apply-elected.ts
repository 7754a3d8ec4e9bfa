/**
 * The first record of a term. Times of the former controller mean nothing here, so every deadline starts anew; orders that may never
 * have left are sent again, and receivers know them by their ids. Suspicions end too: the new controller's failure detector knows nothing
 * of them, so it would never take them back.
 */

import { announce, type Change, type ControllerEffect, command, type ElectedEvent } from "./events.ts";
import type { FleetNode } from "./fleet/fleet-state.ts";
import { leasesOf } from "./groups/leases.ts";
import { leaveDueAtMsOf } from "./members/apply-membership.ts";
import { arrived, type ControllerState, type Member, meshMembersOf, type StepGroups } from "./state.ts";
import { ranksOf } from "./step/plan-mesh.ts";
import { runBodyOf } from "./step/plan-step.ts";

/** Takes over: rebases every time and repeats what is outstanding. Pure. */
export function applyElected(state: ControllerState, event: ElectedEvent): Change<ControllerState> {
  const { plan } = state;
  const nowMs = event.atMs;
  // What lies in the past keeps its distance from the last moment of the former controller.
  const aheadMs = nowMs - state.nowMs;
  const members = Object.values(state.members).map((member): [string, Member] => [
    member.id,
    {
      ...member,
      health: trusted(member.health),
      hungAtMs: member.hungAtMs === null ? null : member.hungAtMs + aheadMs,
      recoveries: member.recoveries.map((atMs) => atMs + aheadMs),
      retryAtMs: nowMs,
      unanswered: 0,
      order: member.order && { ...member.order, dueAtMs: nowMs },
      ...(member.memory ? { memory: { ...member.memory, asked: null, retryAtMs: nowMs } } : {}),
    },
  ]);
  const evictions = Object.entries(state.evictions).map(([id, eviction]) => [
    id,
    {
      ...eviction,
      times: eviction.times.map((atMs) => atMs + aheadMs),
      untilMs: eviction.untilMs + aheadMs,
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
  const { shortage } = state.fleet;
  const leaveDueAtMs = leaveDueAtMsOf({ nowMs, plan });
  const nodes = Object.entries(state.fleet.nodes).map(([id, node]): [string, FleetNode] => [
    id,
    node.leaveDueAtMs === undefined ? node : { ...node, leaveDueAtMs },
  ]);
  const next: ControllerState = {
    ...state,
    groups: Object.fromEntries(groups),
    term: event.term,
    nowMs,
    members: Object.fromEntries(members),
    leases: Object.fromEntries(leases),
    ...(state.heldBack ? { heldBack: { sinceMs: nowMs, untilMs: nowMs + plan.timing.leaseMs } } : {}),
    evictions: Object.fromEntries(evictions),
    // Members get their time anew, the job as a whole does not: whatever hangs does so no longer because controllers change.
    progress: { ...arrived(state).progress, atMs: nowMs },
    mesh: { ...state.mesh, dueAtMs: nowMs + plan.timing.meshMs, joinDueAtMs: null },
    step: { ...state.step, startedAtMs: nowMs, dueAtMs: nowMs + plan.timing.stepMs },
    checkpoints: { ...state.checkpoints, dueAtMs: nowMs + plan.timing.checkpointMs },
    endDueAtMs: nowMs + plan.timing.drainMs,
    fleet: { ...state.fleet, nodes: Object.fromEntries(nodes), shortage: shortage && { ...shortage, sinceMs: nowMs } },
  };
  const started = announce("job.started", {
    term: event.term,
    steps: plan.steps,
    seed: plan.seed,
  });
  const recovered = Object.values(state.members)
    .filter(({ health }) => trusted(health) !== health)
    .map(({ id, role, incarnation }) => announce("member.recovered", { id, role, incarnation }));
  return { state: next, effects: [started, ...recovered, ...repeated(next)] };
}

function trusted(health: Member["health"]): Member["health"] {
  return health === "suspect" || health === "hung" ? "healthy" : health;
}

/** Re-admits everybody under the new term and repeats what is outstanding. */
function repeated(state: ControllerState): readonly ControllerEffect[] {
  return Object.values(state.members).flatMap((member) => repeatedTo(state, member));
}

/** Admits a member again and repeats its leases, its place in a mesh that is being built, and its part in the running step. Pure. */
export function repeatedTo(state: ControllerState, member: Member): readonly ControllerEffect[] {
  const { id, incarnation } = member;
  return [
    { type: "admit", to: id, incarnation },
    ...repeatedLeases(state, member),
    ...repeatedBuild(state, member),
    ...repeatedStep(state, member),
  ];
}

function repeatedLeases(state: ControllerState, member: Member): readonly ControllerEffect[] {
  if (!member.held) return [];
  const { lineage, version } = member.held;
  return leasesOf(state, member.id).map(([leaseId, { items }]) =>
    command(member, "groups.lease", { leaseId, lineage, version, items: [...items] }),
  );
}

function repeatedBuild(state: ControllerState, member: Member): readonly ControllerEffect[] {
  const { mesh } = state;
  const members = meshMembersOf(state);
  const isOfMesh = members.some(({ id }) => id === member.id);
  if (mesh.state !== "building" || !isOfMesh || members.length < mesh.members.length) return [];
  return [command(member, "mesh.build", { epoch: mesh.epoch, members: ranksOf(members) })];
}

function repeatedStep(state: ControllerState, member: Member): readonly ControllerEffect[] {
  const { step, weights } = state;
  if (step.state !== "running" || !weights || step.votes[member.id]) return [];
  if (!meshMembersOf(state).some(({ id }) => id === member.id)) return [];
  return [command(member, "step.run", runBodyOf(state, weights))];
}
