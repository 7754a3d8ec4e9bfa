/**
 * Roles whose replicas share the memory or the disk of a host. They get their places on one host where one has room for all that are wanted, and stay with
 * the first of them as long as a node of that host lives. Where the job names a network, trainers that find no room there go elsewhere: gradients cross
 * it. Who keeps files stays with them.
 */
import { type ReplicaRole, traitsOf } from "@muster/protocol";
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
  const anchor = anchorOf(state);
  const crosses = state.plan.rolloutsServe && !keepsFiles;
  if (anchor !== null) return [rooms.filter(({ node }) => node.host === anchor), ...(crosses ? [rooms] : [])];
  const wanted = state.fleet.wanted[role] * processesOf(state, role);
  const hosts = byHost(rooms);
  const roomy = hosts.filter((host) => roomIn(host) >= wanted);
  const others = hosts.filter((host) => roomIn(host) < wanted).sort((a, b) => roomIn(b) - roomIn(a));
  return [...roomy, ...others, ...(crosses ? [rooms] : [])];
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

/** The host that is shared already, as long as a node of it can take replicas. */
function anchorOf(state: ControllerState): string | null {
  const nodes = membersOf(state, "node").filter(
    ({ id, health }) => state.fleet.nodes[id] && health === "healthy" && !isCordoned(state, id),
  );
  const hosts = Object.values(state.fleet.replicas)
    .filter(({ role }) => traitsOf(role).sharesHost)
    .map(({ node }) => state.members[node ?? ""]?.host);
  return hosts.find((host) => nodes.some((node) => node.host === host)) ?? null;
}
