/**
 * Devices of nodes: each replica gets as many as its role needs when it gets its node, and nobody else gets those while it has its place there. Its
 * node waits with the start of a process until whoever had the devices before has ended.
 */
import { listText } from "@muster/base";
import { doubledOf, isUniqueName, type ReplicaRole, replicaRoles, traitsOf } from "@muster/protocol";
import { type ControllerState, membersOf } from "../state.ts";
import { type FleetReplica, isCounted, withReplica } from "./fleet-state.ts";

/** Devices that a replica of a role needs. Pure. */
function devicesNeeded({ plan }: Pick<ControllerState, "plan">, role: ReplicaRole): number {
  return plan.devices?.[role] ?? 0;
}

/** Devices of a node that no replica has, in the node's order. Whoever was given up has no process, and no devices. Pure. */
function freeDevices({ fleet, members }: ControllerState, node: string): readonly string[] {
  const taken = new Set(
    Object.values(fleet.replicas).flatMap((replica) =>
      replica.node === node && replica.health !== "RETIRED" ? (replica.devices ?? []) : [],
    ),
  );
  return devicesOf({ members }, node).filter((device) => !taken.has(device));
}

/** True when a node has the devices that one more replica of a role needs. Pure. */
export function hasDevices(state: ControllerState, node: string, role: ReplicaRole): boolean {
  const needed = devicesNeeded(state, role);
  return needed === 0 || freeDevices(state, node).length >= needed;
}

/** What a new replica of a role gets of a node that has it; nothing is said in jobs without devices. Pure. */
export function devicesFor(
  state: ControllerState,
  node: string | null,
  role: ReplicaRole,
): Pick<FleetReplica, "devices"> {
  if (node === null || !state.plan.devices) return {};
  return { devices: freeDevices(state, node).slice(0, devicesNeeded(state, role)) };
}

/** A state in which a replica has its place on a node, with devices of it. Pure. */
export function placedOn(state: ControllerState, id: string, node: string): ControllerState {
  const role = state.fleet.replicas[id]?.role;
  return role ? withReplica(state, id, { node, ...devicesFor(state, node, role) }) : state;
}

/** A state in which a replica has no place, and no devices. Pure. */
export function unplaced(state: ControllerState, id: string): ControllerState {
  return withReplica(state, id, { node: null, ...(state.fleet.replicas[id]?.devices ? { devices: [] } : {}) });
}

/** Why a node with these devices is not admitted, `null` when it is. Pure. */
export function deviceClash(
  state: ControllerState,
  id: string,
  { host, devices = [] }: { readonly host: string; readonly devices?: readonly string[] | undefined },
): string | null {
  const twice = doubledOf(devices);
  if (twice !== null) return `devices = ${devices.join(",")}: ${twice} is there twice; name each device once`;
  // Where no role gets any, nobody minds who else names them.
  if (!state.plan.devices) return null;
  for (const other of membersOf(state, "node")) {
    if (other.id === id) continue;
    const shared = devices.find((each) => other.devices?.includes(each) && (other.host === host || isUniqueName(each)));
    if (shared === undefined) continue;
    return `devices = ${devices.join(",")}: ${shared} of ${host} belongs to ${other.id}; give the nodes of one host different devices, for example --devices 0-3 and --devices 4-7, or end ${other.id} first`;
  }
  return null;
}

/** Sentences about replicas that wait for devices: who, for how many, and what each node has. None where nobody does. Pure. */
export function deviceShortages(state: ControllerState): readonly string[] {
  const { fleet, plan } = state;
  if (!plan.devices || state.ending || Object.keys(fleet.nodes).length === 0) return [];
  return replicaRoles.flatMap((role) => {
    const needed = devicesNeeded(state, role);
    const own = Object.values(fleet.replicas).filter((each) => each.role === role && !each.leaving);
    const absent = Math.max(0, fleet.wanted[role] - own.filter(isCounted).length);
    const waiting = absent + own.filter(({ node, health }) => node === null && health !== "RETIRED").length;
    const nodes = Object.keys(fleet.nodes).filter((id) => !fleet.cordoned.includes(id));
    if (needed === 0 || waiting === 0 || nodes.some((id) => freeDevices(state, id).length >= needed)) return [];
    const ranks = traitsOf(role).hasRanks ? plan.rolloutRanks : 1;
    const asked = `devices.${role} = ${needed / ranks}${ranks > 1 ? `, rollout.ranks = ${ranks}` : ""}`;
    const each = nodes.map((id) => `${id} ${freeDevices(state, id).length} of ${devicesOf(state, id).length}`);
    const have = each.length === 0 ? "every node is cordoned" : `free: ${listText(each)}`;
    const who = waiting === 1 ? "1 waits for" : `${waiting} wait, each for`;
    return [
      `${role}: ${who} ${needed} devices of one node (${asked}; ${have}); start a node with free devices (muster node --devices), scale down, or lower devices.${role}`,
    ];
  });
}

function devicesOf({ members }: Pick<ControllerState, "members">, node: string): readonly string[] {
  return members[node]?.devices ?? [];
}
