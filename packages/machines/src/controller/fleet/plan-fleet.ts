/** Which replicas run on which node: wanted − present is placed, surplus drains, who lost its node goes elsewhere (semantics 2, 6.16). */
import { listText } from "@muster/base";
import { type ReplicaRole, replicaRoles, traitsOf } from "@muster/protocol";
import { announce, type Change, type ControllerEffect } from "../events.ts";
import { crowd } from "../members/crowd.ts";
import { type ControllerState, countOf, type Member, membersOf, withMember, without } from "../state.ts";
import { deviceShortages, devicesFor, hasDevices, placedOn, unplaced } from "./devices.ts";
import { changed } from "./fleet-health.ts";
import { type FleetReplica, isCordoned, isCounted, withFleet, withReplica } from "./fleet-state.ts";

/** Forgets nodes that are gone or came back as another life: what they ran has no node. Pure. */
export function planNodes(state: ControllerState): Change<ControllerState> | null {
  const lost = Object.entries(state.fleet.nodes).filter(
    ([id, node]) => state.members[id]?.incarnation !== node.incarnation,
  );
  if (lost.length === 0) return null;
  const next = lost.reduce((current, [id]) => {
    const homeless = Object.keys(current.fleet.replicas).reduce(
      (fleet, replica) =>
        fleet.fleet.replicas[replica]?.node === id
          ? withReplica(unplaced(fleet, replica), replica, { process: null })
          : fleet,
      current,
    );
    return withFleet(homeless, { nodes: without(homeless.fleet.nodes, id) });
  }, state);
  return { state: next, effects: [] };
}

/** Places what has no node, makes what is missing, and releases what is too much, the youngest first. Pure. */
export function planPlacement(state: ControllerState): Change<ControllerState> | null {
  if (state.ending) return null;
  const placed = Object.keys(state.fleet.replicas).reduce((next, id) => place(next, id), state);
  const scaled = replicaRoles.reduce((next, role) => scale(next, role), placed);
  if (scaled === state) return null;
  const moved = Object.entries(scaled.fleet.replicas).filter(
    ([id, { node }]) => node !== null && !state.fleet.replicas[id],
  );
  const effects = moved.map(([id, replica]) =>
    changed(id, replica, { health: "STARTING", reason: `to ${replica.node}` }),
  );
  return { state: scaled, effects };
}

function place(state: ControllerState, id: string): ControllerState {
  const replica = state.fleet.replicas[id];
  if (!replica || replica.node !== null || replica.leaving || replica.health === "RETIRED") return state;
  const node = roomFor(state, replica.role);
  return node ? withReplica(placedOn(state, id, node), id, { life: replica.life + 1 }) : state;
}

function scale(state: ControllerState, role: ReplicaRole): ControllerState {
  const present = Object.entries(state.fleet.replicas).filter(([, each]) => each.role === role && isCounted(each));
  const wanted = state.fleet.wanted[role];
  if (present.length < wanted) {
    const node = roomFor(state, role);
    return node ? scale(makeReplica(state, role, node).state, role) : state;
  }
  const youngest = present.sort(([, a], [, b]) => youth(b) - youth(a)).slice(0, present.length - wanted);
  return youngest.reduce((next, [id]) => withReplica(next, id, { leaving: true }), state);
}

/** What no node runs goes before what one does. */
function youth({ node, seq }: FleetReplica): number {
  return node === null ? Number.MAX_SAFE_INTEGER : seq;
}

/** A new replica on a node, under a number that no replica had before. Pure. */
export function makeReplica(
  state: ControllerState,
  role: ReplicaRole,
  node: string | null,
): { readonly state: ControllerState; readonly id: string } {
  const { fleet } = state;
  let number = fleet.made[role];
  while (state.members[`${role}-${number}`] || fleet.replicas[`${role}-${number}`]) number++;
  const id = `${role}-${number}`;
  const seq = Object.values(fleet.made).reduce((sum, count) => sum + count, 0);
  const replica: FleetReplica = {
    role,
    seq,
    node,
    ...devicesFor(state, node, role),
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

/** Most replicas that one node is told to run. */
const nodeReplicasMax = 4_096;

/**
 * The emptiest node that can take one more of a role; `null` when there is none. Cordoned and leaving nodes take nothing, and neither
 * does one on which a replica of the role was retired. Policy replicas and checkpoint actors share the memory and the disk of one host,
 * so they stay together while a node of that host lives. Pure.
 */
export function roomFor(state: ControllerState, role: ReplicaRole): string | null {
  const { fleet } = state;
  if (Object.keys(fleet.nodes).length === 0) return null;
  const on = (id: string): readonly FleetReplica[] => Object.values(fleet.replicas).filter(({ node }) => node === id);
  const nodes = membersOf(state, "node").filter(
    (member) => fleet.nodes[member.id] && member.health === "healthy" && !isCordoned(state, member.id),
  );
  const host = traitsOf(role).sharesHost ? anchorOf(state, nodes) : null;
  const usable = nodes.filter(({ id, host: own }) => {
    const same = on(id).filter((replica) => replica.role === role);
    const limit = fleet.nodes[id]?.capacity[role] ?? Number.POSITIVE_INFINITY;
    const isBad = same.some(({ health }) => health === "RETIRED");
    const isFull = same.length >= limit || on(id).length >= nodeReplicasMax || !hasDevices(state, id, role);
    return !isBad && !isFull && (host === null || host === own);
  });
  const load = (member: Member): number => on(member.id).length;
  return usable.sort((a, b) => load(a) - load(b) || a.joinedSeq - b.joinedSeq)[0]?.id ?? null;
}

/** The host that has to be shared, as long as a node of it can take replicas. */
function anchorOf(state: ControllerState, nodes: readonly Member[]): string | null {
  const hosts = Object.values(state.fleet.replicas)
    .filter(({ role }) => traitsOf(role).sharesHost)
    .map(({ node }) => state.members[node ?? ""]?.host);
  return hosts.find((host) => nodes.some((node) => node.host === host)) ?? null;
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
    } else if (!replica.process) {
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

/** True for a replica on a node that leaves. Pure. */
export function isOnLeaving(state: ControllerState, { node }: FleetReplica): boolean {
  return node !== null && state.members[node]?.health === "draining";
}

/** True when the node has no time left to wait for successors: it ends by itself, and its replicas have to hand back their work. Pure. */
export function isPressed(state: ControllerState, { node }: FleetReplica): boolean {
  return state.nowMs >= (state.fleet.nodes[node ?? ""]?.leaveDueAtMs ?? Number.POSITIVE_INFINITY);
}

function hasWorkers(state: ControllerState): boolean {
  return replicaRoles.some((role) => !traitsOf(role).leavesLast && countOf(state, role) > 0);
}

/** Says what is missing when too few replicas were healthy for as long as a death takes to notice. The job stays up. Pure. */
export function planShortage(state: ControllerState): Change<ControllerState> | null {
  const { shortage } = state.fleet;
  // Before the first mesh too little is there to be short of; devices can be short from the start.
  const missing = state.ending ? [] : state.mesh.epoch === 0 ? deviceShortages(state) : missingOf(state);
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
  return [...lacking, ...deviceShortages(state)];
}
