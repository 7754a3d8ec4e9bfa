/** Which replicas run on which node: wanted − present is placed, surplus drains, who lost its node goes elsewhere (semantics 2, 6.16). */
import { listText } from "@muster/base";
import { type ReplicaRole, replicaRoles, traitsOf } from "@muster/protocol";
import { announce, type Change, type ControllerEffect } from "../events.ts";
import { crowd } from "../members/crowd.ts";
import { type ControllerState, countOf, withMember, without } from "../state.ts";
import { changed } from "./changed.ts";
import { type FleetReplica, isCounted, withFleet, withReplica } from "./fleet-state.ts";
import { loseLife } from "./lose-life.ts";
import { type Place, placedOn, roomFor, unplaced } from "./place.ts";
import { freshGroup, isOn, isQuiet, processesOf, ranksOf, withoutLeftovers } from "./ranks.ts";
import { placeShortages } from "./shortages.ts";

/** Forgets nodes that are gone or came back as another life: what they ran has no node, and of a replica of several processes nobody runs on. Pure. */
export function planNodes(state: ControllerState): Change<ControllerState> | null {
  const lost = Object.entries(state.fleet.nodes).filter(
    ([id, node]) => state.members[id]?.incarnation !== node.incarnation,
  );
  if (lost.length === 0) return null;
  const effects: ControllerEffect[] = [];
  let next = state;
  for (const [id] of lost) {
    for (const [replica, row] of Object.entries(next.fleet.replicas)) {
      if (row.group) {
        const out = isOn(row, id) ? loseNode(next, replica, id) : { state: next, effects: [] };
        next = withoutLeftovers(out.state, replica, (left) => left.node === id);
        effects.push(...out.effects);
      } else if (row.node === id) next = withReplica(unplaced(next, replica), replica, { process: null });
    }
    next = withFleet(next, { nodes: without(next.fleet.nodes, id) });
  }
  return { state: next, effects };
}

/** A node is gone, and with it some of the processes of a replica: the others end, too. */
function loseNode(state: ControllerState, id: string, node: string): Change<ControllerState> {
  const replica = state.fleet.replicas[id];
  const ranks = replica ? ranksOf(replica).flatMap((rank, i) => (rank.node === node ? [i] : [])) : [];
  const named = `rank${ranks.length > 1 ? "s" : ""} ${listText(ranks.map(String))}`;
  const evidence = `${named} of ${id}: ${node}, where ${ranks.length > 1 ? "they ran" : "it ran"}, is gone`;
  const lost = loseLife(state, id, { evidence, by: "disconnect", node, isCounted: false });
  const rows = replica ? ranksOf(replica) : [];
  const left = rows.flatMap((rank) => (rank.process ? [{ node: rank.node, pid: rank.process.pid }] : []));
  const bare = withReplica(unplaced(lost.state, id), id, { process: null });
  const group = bare.fleet.replicas[id]?.group;
  const kept = group ? { group: { ...group, leftovers: [...group.leftovers, ...left] } } : {};
  return { state: withReplica(bare, id, kept), effects: lost.effects };
}

/** Places what has no node, makes what is missing, and releases what is too much, the youngest first. Pure. */
export function planPlacement(state: ControllerState): Change<ControllerState> | null {
  if (state.ending) return null;
  const placed = Object.keys(state.fleet.replicas).reduce((next, id) => place(next, id), state);
  const scaled = replicaRoles.reduce((next, role) => scale(next, role), placed);
  if (scaled === state) return null;
  const made = Object.entries(scaled.fleet.replicas).filter(([id]) => !state.fleet.replicas[id]);
  const effects = made.map(([id, replica]) =>
    changed(id, replica, { health: "STARTING", reason: `to ${replica.node}` }),
  );
  return { state: scaled, effects };
}

function place(state: ControllerState, id: string): ControllerState {
  const replica = state.fleet.replicas[id];
  if (!replica || replica.node !== null || replica.leaving || replica.health === "RETIRED") return state;
  const place = roomFor(state, replica.role);
  return place ? withReplica(placedOn(state, id, place), id, { life: replica.life + 1 }) : state;
}

function scale(state: ControllerState, role: ReplicaRole): ControllerState {
  const present = Object.entries(state.fleet.replicas).filter(([, each]) => each.role === role && isCounted(each));
  const wanted = state.fleet.wanted[role];
  if (present.length < wanted) {
    const place = roomFor(state, role);
    return place ? scale(makeReplica(state, role, place).state, role) : state;
  }
  const youngest = present.sort(([, a], [, b]) => youth(b) - youth(a)).slice(0, present.length - wanted);
  return youngest.reduce((next, [id]) => withReplica(next, id, { leaving: true }), state);
}

/** What no node runs goes before what one does. */
function youth({ node, seq }: FleetReplica): number {
  return node === null ? Number.MAX_SAFE_INTEGER : seq;
}

/** A new replica with a place, or none yet, under a number that no replica had before. Pure. */
export function makeReplica(
  state: ControllerState,
  role: ReplicaRole,
  place: Place | null,
): { readonly state: ControllerState; readonly id: string } {
  const { fleet } = state;
  let number = fleet.made[role];
  while (state.members[`${role}-${number}`] || fleet.replicas[`${role}-${number}`]) number++;
  const id = `${role}-${number}`;
  const seq = Object.values(fleet.made).reduce((sum, count) => sum + count, 0);
  const replica: FleetReplica = {
    role,
    seq,
    node: null,
    ...(processesOf(state, role) > 1 ? { group: freshGroup([]) } : {}),
    ...(place ?? {}),
    health: "STARTING",
    life: 1,
    process: null,
    ended: 0,
    member: null,
    deaths: 0,
    leaving: false,
    replacedBy: null,
  };
  const made = { ...fleet.made, [role]: number + 1 };
  return { state: withFleet(state, { made, replicas: { ...fleet.replicas, [id]: replica } }), id };
}

/** Lets go of what is released or whose node leaves; forgets what has gone. Checkpoint actors stay until nobody is left to save. Pure. */
export function planDepartures(state: ControllerState): Change<ControllerState> | null {
  const effects: ControllerEffect[] = [];
  let next = state;
  for (const [id, replica] of Object.entries(state.fleet.replicas)) {
    if (!isOff(state, replica)) continue;
    const member = state.members[id];
    if (member) {
      const isNeeded = traitsOf(replica.role).leavesLast && !replica.leaving && hasWorkers(state);
      if (member.health !== "draining" && !isNeeded) next = withMember(next, id, { health: "draining" });
    } else if (isQuiet(replica)) {
      if (!replica.leaving) next = unplaced(next, id);
      else {
        next = withFleet(next, {
          replicas: without(next.fleet.replicas, id),
          cordoned: next.fleet.cordoned.filter((other) => other !== id),
        });
        effects.push(changed(id, replica, { health: "LEFT", reason: "it is gone" }));
      }
    }
  }
  return next === state ? null : { state: next, effects };
}

/** True for a replica that should not run on its node any more: on a node that leaves it stays until its successor is healthy. Pure. */
export function isOff(state: ControllerState, replica: FleetReplica): boolean {
  if (replica.leaving || !isOnLeaving(state, replica)) return replica.leaving;
  return replica.replacedBy === null || state.ending !== null || isPressed(state, replica);
}

/** True for a replica on a node that leaves: all of it, or some of its processes. Pure. */
export function isOnLeaving(state: ControllerState, replica: FleetReplica): boolean {
  if (!replica.group) return replica.node !== null && state.members[replica.node]?.health === "draining";
  return ranksOf(replica).some(({ node }) => state.members[node]?.health === "draining");
}

/** True when the node has no time left to wait for successors: it ends by itself, and its replicas have to hand back their work. Pure. */
export function isPressed(state: ControllerState, replica: FleetReplica): boolean {
  const isLate = (node: string | null): boolean =>
    state.nowMs >= (state.fleet.nodes[node ?? ""]?.leaveDueAtMs ?? Number.POSITIVE_INFINITY);
  return replica.group ? ranksOf(replica).some(({ node }) => isLate(node)) : isLate(replica.node);
}

function hasWorkers(state: ControllerState): boolean {
  return replicaRoles.some((role) => !traitsOf(role).leavesLast && countOf(state, role) > 0);
}

/** Says what is missing when too few replicas were healthy for as long as a death takes to notice. The job stays up. Pure. */
export function planShortage(state: ControllerState): Change<ControllerState> | null {
  const { shortage } = state.fleet;
  // Before the first mesh too little is there to be short of; devices can be short from the start.
  const missing = state.ending ? [] : state.mesh.epoch === 0 ? placeShortages(state) : missingOf(state);
  if (missing.length === 0) return shortage ? { state: withFleet(state, { shortage: null }), effects: [] } : null;
  if (!shortage) return { state: withFleet(state, { shortage: { sinceMs: state.nowMs, isTold: false } }), effects: [] };
  if (shortage.isTold || state.nowMs < shortage.sinceMs + state.plan.timing.deadAfterMs) return null;
  return {
    state: withFleet(state, { shortage: { ...shortage, isTold: true } }),
    effects: [announce("alarm.raised", { alarm: "capacity", detail: missing.join("; ") })],
  };
}

/** Sentences about what the job lacks; none when it has enough. Pure. */
export function missingOf(state: ControllerState): readonly string[] {
  const lacking = (["policy", "rollout"] as const).flatMap((role) => {
    const healthy = crowd.of(state.members).healthy[role];
    const least = state.plan.minReplicas[role];
    if (healthy >= least) return [];
    const nodes = countOf(state, "node");
    const retired = Object.entries(state.fleet.replicas).filter(
      ([, each]) => each.role === role && each.health === "RETIRED",
    );
    const why = [
      nodes === 0 ? "no node is there to start one" : "",
      retired.length > 0 ? `given up: ${listText(retired.map(([id]) => id))}` : "",
    ].filter((part) => part !== "");
    return [`${role}: ${healthy} healthy, at least ${least} needed${why.length > 0 ? ` (${why.join("; ")})` : ""}`];
  });
  return [...lacking, ...placeShortages(state)];
}
