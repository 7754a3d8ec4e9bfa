/**
 * Roles whose replicas share the memory or the disk of a host. They get their places on one host where one has room for all that are wanted, and stay with
 * the first of them as long as a node of that host lives. Where the job names a network, trainers that find no room there go elsewhere: gradients cross
 * it. Who keeps files stays with them, unless no node of that host may ever run one: then it goes to another trainer's host, or anywhere.
 */
import { type ReplicaRole, replicaRoles, traitsOf } from "@muster/protocol";
import { type ControllerState, type Member, membersOf } from "../state.ts";
import { isCordoned } from "./fleet-state.ts";
import { processesOf } from "./ranks.ts";

/** A node, and for how many more processes of a role it has room. */
export interface Room {
  readonly node: Member;
  /** Processes that it runs. */
  readonly load: number;
  readonly free: number;
}

/** The rooms in which a replica of a role may get its place: those of the first set that is enough. Pure. */
export function hostsFor(
  state: ControllerState,
  role: ReplicaRole,
  rooms: readonly Room[],
): readonly (readonly Room[])[] {
  const { sharesHost, keepsFiles } = traitsOf(role);
  if (!sharesHost) return [rooms];
  const { rolloutsServe: hasNetwork } = state.plan;
  const roomsOn = (host: string): readonly Room[] => rooms.filter(({ node }) => node.host === host);
  const [first, ...further] = sharedHosts(state);
  if (first !== undefined) {
    if (!hasNetwork || (keepsFiles && mayRun(state, first, role))) return [roomsOn(first)];
    return [roomsOn(first), ...(keepsFiles ? further.map(roomsOn) : []), rooms];
  }
  const wanted = state.fleet.wanted[role] * processesOf(state, role);
  const hosts = byHost(rooms).sort((a, b) => keeping(state, b) - keeping(state, a));
  const roomy = hosts.filter((host) => roomIn(host) >= wanted);
  const others = hosts.filter((host) => roomIn(host) < wanted).sort((a, b) => roomIn(b) - roomIn(a));
  return [...roomy, ...others, ...(hasNetwork && !keepsFiles ? [rooms] : [])];
}

/** Rooms by host, in their order. Pure. */
export function byHost(rooms: readonly Room[]): Room[][] {
  const hosts = new Map<string, Room[]>();
  for (const room of rooms) hosts.set(room.node.host, [...(hosts.get(room.node.host) ?? []), room]);
  return [...hosts.values()];
}

/** Processes that find room together. Pure. */
export function roomIn(rooms: readonly Room[]): number {
  return rooms.reduce((sum, { free }) => sum + free, 0);
}

/** Hosts that are shared already, that of the first replica first, as long as a node of theirs can take replicas. Pure. */
export function sharedHosts(state: ControllerState): readonly string[] {
  const nodes = membersOf(state, "node").filter(
    ({ id, health }) => state.fleet.nodes[id] && health === "healthy" && !isCordoned(state, id),
  );
  const hosts = Object.values(state.fleet.replicas)
    .filter(({ role }) => traitsOf(role).sharesHost)
    .flatMap(({ node }) => state.members[node ?? ""]?.host ?? []);
  return [...new Set(hosts)].filter((host) => nodes.some((node) => node.host === host));
}

/** Whether a node of this host is there for the role, full or not. */
function mayRun(state: ControllerState, host: string, role: ReplicaRole): boolean {
  const nodes = membersOf(state, "node").filter((node) => node.host === host);
  return nodes.some(({ id }) => state.fleet.nodes[id]?.capacity[role] !== 0);
}

/** 1 for a host that may keep the files that the job wants kept: trainers go there first. */
function keeping(state: ControllerState, [room]: readonly Room[]): number {
  const keepers = replicaRoles.filter((role) => traitsOf(role).keepsFiles && state.fleet.wanted[role] > 0);
  return room && keepers.every((role) => mayRun(state, room.node.host, role)) ? 1 : 0;
}
