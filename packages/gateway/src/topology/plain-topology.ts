/** The whole state as JSON and back: for the journal's snapshots and for `/debug/topology`. */
import { nodeIdOf, type Topology } from "./state.ts";

/** A state as plain JSON. */
export type PlainTopology = ReturnType<typeof plainOf>;

/** The state as plain JSON: maps become lists of pairs, in their order. */
export function plainOf(state: Topology) {
  return {
    ...state,
    roles: [...state.roles].map(([role, nodes]) => [role, [...nodes]] as const),
    updates: [...state.updates],
    locks: [...state.locks],
    offers: [...state.offers],
  };
}

/** The state that was made plain. */
export function stateOf({ roles, updates, locks, offers, ...rest }: PlainTopology): Topology {
  return {
    ...rest,
    roles: new Map(roles.map(([role, nodes]) => [role, new Map(nodes)])),
    updates: new Map(updates),
    locks: new Map(locks),
    offers: new Map(offers),
  };
}

/** What `/debug/topology` shows: every node with its age, and what is held and on its way. */
export function debugOf(state: Topology, now: number, roleMappings: Readonly<Record<string, string>>) {
  const roles = [...state.roles].map(([role, nodes]) => {
    const rows = [...nodes].map(([rank, node]) => [
      String(rank),
      {
        node_id: nodeIdOf(role, rank),
        role_info: node.info,
        is_alive: node.isAlive,
        seconds_since_heartbeat: Math.max(0, now - node.lastHeartbeat) / 1_000,
        incarnation: node.incarnation,
        connections: connectionsOf(state, role, rank, roleMappings),
      },
    ]);
    return [role, Object.fromEntries(rows)];
  });
  return {
    membership_epoch: state.epoch,
    role_mappings: roleMappings,
    nodes: Object.fromEntries(roles),
    updates: [...state.updates].map(([update_id, { entries, bytes, sender, goneBecause }]) => ({
      ...{ update_id, entries: entries.length, bytes, sender, gone_because: goneBecause },
    })),
    locks: [...state.locks].map(([name, { owner, token, until }]) => ({
      ...{ name, owner, token, seconds_left: Math.max(0, until - now) / 1_000 },
    })),
    ports: state.ports,
    offers: [...state.offers].map(([group_name, { version, sender }]) => ({ group_name, version, sender })),
  };
}

/** Ids of the living peers of a node, in both directions of the role mappings. */
function connectionsOf(
  state: Topology,
  role: string,
  rank: number,
  roleMappings: Readonly<Record<string, string>>,
): readonly string[] {
  const roles = Object.entries(roleMappings).flatMap(([from, to]) => [
    ...(from === role ? [to] : []),
    ...(to === role ? [from] : []),
  ]);
  return [...new Set(roles)]
    .filter((peer) => state.roles.get(peer)?.get(rank)?.isAlive)
    .map((peer) => nodeIdOf(peer, rank));
}
