/**
 * Where a replica finds room: all of its processes, or none. On one node where one has room for all, else on the nodes of one host, else on as few as
 * will do. Cordoned and leaving nodes take nothing, and neither does one on which a replica of the role was given up. Several processes go to nodes only
 * that can run them.
 */
import { nodeRanksMax, type ReplicaRole } from "@muster/protocol";
import { type ControllerState, membersOf } from "../state.ts";
import { devicesNeeded, freeDevices } from "./devices.ts";
import { type FleetRank, type FleetReplica, isCordoned, withReplica } from "./fleet-state.ts";
import { canRun, freshGroup, processesOf, processesOn } from "./ranks.ts";
import { byHost, hostsFor, type Room, roomIn } from "./shared-host.ts";

/** The place of a replica: that of rank 0, and of the others. */
export type Place = Pick<FleetReplica, "devices" | "group"> & { readonly node: string };

/** Most processes that one node is told to run. */
const nodeProcessesMax = 4_096;

/** Where one more replica of a role finds room for all of its processes; `null` where it does not. Pure. */
export function roomFor(state: ControllerState, role: ReplicaRole): Place | null {
  if (Object.keys(state.fleet.nodes).length === 0) return null;
  for (const rooms of hostsFor(state, role, roomsOf(state, role))) {
    const nodes = nodesFor(state, rooms, processesOf(state, role));
    if (nodes) return placeOn(state, nodes, role);
  }
  return null;
}

/** What each node that takes new work has room for, the emptiest first. Pure. */
export function roomsOf(state: ControllerState, role: ReplicaRole): readonly Room[] {
  const { fleet } = state;
  const limitOf = (id: string) => fleet.nodes[id]?.capacity[role] ?? Number.POSITIVE_INFINITY;
  const needed = devicesNeeded(state, role);
  return membersOf(state, "node")
    .filter(({ id, health }) => fleet.nodes[id] && health === "healthy" && !isCordoned(state, id))
    .filter(({ id }) => canRun(state, id, role))
    .map((node) => {
      const on = processesOn(state, node.id);
      const same = on.filter((each) => each.role === role);
      const isBad = same.some(({ health }) => health === "RETIRED");
      const byDevices = needed === 0 ? Number.POSITIVE_INFINITY : freeDevices(state, node.id).length / needed;
      const free = Math.min(limitOf(node.id) - same.length, leftOn(state, on, role), Math.floor(byDevices));
      return { node, load: on.length, free: isBad ? 0 : free };
    })
    .filter(({ free }) => free > 0)
    .sort((a, b) => a.load - b.load || a.node.joinedSeq - b.node.joinedSeq);
}

/** For how many more processes of a role the message has room that names those of a node. */
function leftOn(state: ControllerState, on: readonly FleetReplica[], role: ReplicaRole): number {
  const left = nodeProcessesMax - on.length;
  if (processesOf(state, role) === 1) return left;
  return Math.min(left, nodeRanksMax - on.filter(({ group }) => group).length);
}

/** A place on a node alone, whatever else it is asked for: for a successor of one that was given up there. Pure. */
export function roomOn(state: ControllerState, node: string, role: ReplicaRole): Place | null {
  const count = processesOf(state, role);
  const hasRoom = leftOn(state, processesOn(state, node), role) >= count;
  const isThere = canRun(state, node, role) && freeDevices(state, node).length >= devicesNeeded(state, role) * count;
  return hasRoom && isThere ? placeOn(state, Array(count).fill(node), role) : null;
}

/** The node of each process, rank by rank; `null` where not all find room. */
function nodesFor(state: ControllerState, rooms: readonly Room[], count: number): readonly string[] | null {
  const alone = rooms.find(({ free }) => free >= count);
  if (alone) return Array(count).fill(alone.node.id);
  const byRoom = byHost(rooms).sort((a, b) => roomIn(b) - roomIn(a));
  const host = byRoom.find((each) => roomIn(each) >= count);
  // Who is met from other hosts has an address there.
  const reached = byRoom.flat().filter(({ node }) => state.fleet.nodes[node.id]?.address !== undefined);
  const among = host ?? (roomIn(reached) >= count ? reached : null);
  return among ? filled(among, count) : null;
}

/** On as few nodes of a host as will do, one after the other. */
function filled(rooms: readonly Room[], count: number): readonly string[] {
  const inOrder = byHost(rooms).flatMap((own) => [...own].sort((a, b) => b.free - a.free));
  return inOrder.flatMap(({ node, free }) => Array<string>(Math.min(free, count)).fill(node.id)).slice(0, count);
}

/** The place on these nodes, with devices of theirs; nothing is said of devices in jobs without. */
function placeOn(state: ControllerState, nodes: readonly string[], role: ReplicaRole): Place {
  const needed = devicesNeeded(state, role);
  const free = new Map([...new Set(nodes)].map((node) => [node, [...freeDevices(state, node)]]));
  const ranks = nodes.map((node): FleetRank => {
    const devices = state.plan.devices ? { devices: free.get(node)?.splice(0, needed) ?? [] } : {};
    return { node, ...devices, process: null };
  });
  const [first, ...others] = ranks;
  const { node = "", devices } = first ?? {};
  return { node, ...(devices ? { devices } : {}), ...(others.length > 0 ? { group: freshGroup(others) } : {}) };
}

/** A state in which a replica has this place. What is known of its earlier lives stays. Pure. */
export function placedOn(state: ControllerState, id: string, place: Place): ControllerState {
  const known = state.fleet.replicas[id]?.group;
  const group = place.group && known ? { group: { ...known, ranks: place.group.ranks } } : {};
  return withReplica(state, id, { ...place, ...group });
}

/** A state in which a replica has no place, and no devices. Pure. */
export function unplaced(state: ControllerState, id: string): ControllerState {
  const { devices, group } = state.fleet.replicas[id] ?? {};
  return withReplica(state, id, {
    node: null,
    ...(devices ? { devices: [] } : {}),
    ...(group ? { group: { ...group, ranks: [], master: null } } : {}),
  });
}
