/**
 * The first record of a term. Every wait goes on with the time that was left, so that whatever hangs does so no longer because controllers
 * change; orders that may never have left are sent again, and receivers know them by their ids. Suspicions end: the new controller's failure
 * detector knows nothing of them, so it would never take them back.
 */

import { announce, type Change, type ControllerEffect, command, type ElectedEvent } from "./events.ts";
import { leasesOf } from "./groups/lease-table.ts";
import { arrived } from "./progress.ts";
import { rebaseTimes } from "./rebase-times.ts";
import { stepsOf } from "./sizes.ts";
import { type ControllerState, type Member, meshMembersOf } from "./state.ts";
import { ranksOf } from "./step/plan-mesh.ts";
import { runBodyOf } from "./step/plan-step.ts";

/** Takes over: rebases every time and repeats what is outstanding. Pure. */
export function applyElected(state: ControllerState, event: ElectedEvent): Change<ControllerState> {
  const nowMs = event.atMs;
  const rebased = rebaseTimes(state, nowMs, state.plan.timing.commandMs);
  const members = Object.values(rebased.members).map((member): [string, Member] => [
    member.id,
    {
      ...member,
      health: trusted(member.health),
      order: member.order && { ...member.order, dueAtMs: nowMs },
      owed: member.order ?? member.owed ?? null,
      ...(member.memory ? { memory: { ...member.memory, asked: null } } : {}),
    },
  ]);
  const { mesh } = state;
  const next: ControllerState = {
    ...rebased,
    term: event.term,
    members: Object.fromEntries(members),
    // Members get their time anew, the job as a whole does not.
    progress: { ...arrived(state).progress, atMs: nowMs },
    // What is broken waits for nobody.
    mesh: mesh.state === "broken" ? { ...mesh, dueAtMs: mesh.dueAtMs + nowMs - state.nowMs } : rebased.mesh,
  };
  const started = announce("job.started", {
    term: event.term,
    steps: stepsOf(next),
    seed: next.plan.seed,
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
