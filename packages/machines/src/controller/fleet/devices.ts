/**
 * Devices of nodes: each replica gets as many as its role needs when it gets its node, and nobody else gets those while it has its place there. Its
 * node waits with the start of a process until whoever had the devices before has ended.
 */
import { doubledOf, isUniqueName, type ReplicaRole } from "@muster/protocol";
import { type ControllerState, membersOf } from "../state.ts";
import { isOn, ranksOf } from "./ranks.ts";

/** Devices that each process of a replica of a role needs. Pure. */
export function devicesNeeded({ plan }: Pick<ControllerState, "plan">, role: ReplicaRole): number {
  return plan.devices?.[role] ?? 0;
}

/** Devices of a node that no replica has, in the node's order. Whoever was given up has no process, and no devices. Pure. */
export function freeDevices({ fleet, members }: ControllerState, node: string): readonly string[] {
  const taken = new Set(
    Object.values(fleet.replicas).flatMap((replica) =>
      replica.health === "RETIRED" || !isOn(replica, node)
        ? []
        : ranksOf(replica).flatMap((rank) => (rank.node === node ? (rank.devices ?? []) : [])),
    ),
  );
  return devicesOf({ members }, node).filter((device) => !taken.has(device));
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

/** All devices of a node. Pure. */
export function devicesOf({ members }: Pick<ControllerState, "members">, node: string): readonly string[] {
  return members[node]?.devices ?? [];
}
