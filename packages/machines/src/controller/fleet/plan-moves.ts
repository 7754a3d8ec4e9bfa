/**
 * What runs on a node that leaves is replaced first, where there is room elsewhere: the old one goes once the new one is healthy. Where
 * there is none it goes at once, and comes back when there is.
 */
import { traitsOf } from "@muster/protocol";
import type { Change, ControllerEffect } from "../events.ts";
import type { ControllerState } from "../state.ts";
import { changed } from "./changed.ts";
import { type FleetReplica, withReplica } from "./fleet-state.ts";
import { roomFor } from "./place.ts";
import { isOnLeaving, isPressed, makeReplica } from "./plan-fleet.ts";

/** Makes successors of what is on leaving nodes, and releases whom they have replaced. Pure. */
export function planMoves(state: ControllerState): Change<ControllerState> | null {
  if (state.ending) return null;
  const effects: ControllerEffect[] = [];
  let next = state;
  for (const [id, { leaving }] of Object.entries(state.fleet.replicas)) {
    const replica = next.fleet.replicas[id];
    if (leaving || !replica) continue;
    const before = next;
    next = replica.replacedBy === null ? succeed(next, id, replica) : follow(next, id, replica);
    const made = Object.entries(next.fleet.replicas).find(([other]) => !before.fleet.replicas[other]);
    if (made) effects.push(changed(made[0], made[1], { health: "STARTING", reason: `to ${made[1].node} for ${id}` }));
  }
  return next === state ? null : { state: next, effects };
}

/** Makes a successor on another node, if one has room that the rest of the job can reach. */
function succeed(state: ControllerState, id: string, replica: FleetReplica): ControllerState {
  const { role, health } = replica;
  if (!isOnLeaving(state, replica) || isPressed(state, replica) || !state.members[id] || health === "RETIRED")
    return state;
  const place = roomFor(state, role);
  if (place === null) return state;
  const hostOf = (of: string | null): string | undefined => state.members[of ?? ""]?.host;
  // Trainers and checkpoint actors of one job reach each other on one host, or over the network that the job names.
  if (traitsOf(role).sharesHost && hostOf(place.node) !== hostOf(replica.node) && !state.plan.rolloutsServe)
    return state;
  const made = makeReplica(state, role, place);
  return withReplica(made.state, id, { replacedBy: made.id });
}

/** Goes on with a replica that has a successor. What an operator's `replica.replace` has begun is that command's own. */
function follow(state: ControllerState, id: string, replica: FleetReplica): ControllerState {
  const { node, replacedBy } = replica;
  const fresh = state.fleet.replicas[replacedBy ?? ""];
  if (!isOnLeaving(state, replica)) {
    const isAsked = Object.values(state.fleet.commands).some(
      ({ kind, target, answer }) => kind === "replica.replace" && target === id && answer === null,
    );
    if (isAsked) return state;
    // The node is gone, and what ran there ended with it; or it stays after all, and needs no successors.
    if (node === null) return withReplica(state, id, { leaving: true, replacedBy: null });
    return withReplica(withReplica(state, replacedBy ?? "", { leaving: true }), id, { replacedBy: null });
  }
  if (!fresh) return withReplica(state, id, { leaving: true, replacedBy: null });
  // Who is released without a successor was one too many; who has one is moved itself.
  if (fresh.leaving) {
    const patch = fresh.replacedBy === null ? { leaving: true, replacedBy: null } : { replacedBy: fresh.replacedBy };
    return withReplica(state, id, patch);
  }
  if (fresh.health === "RETIRED") {
    const alone = { ...replica, replacedBy: null };
    return succeed(withReplica(state, id, alone), id, alone);
  }
  return fresh.health === "HEALTHY" ? withReplica(state, id, { leaving: true }) : state;
}
