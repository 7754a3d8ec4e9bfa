/** Tells each node the whole set that should run there, whenever it differs from what the node was told. */
import type { Body, RankOrder } from "@muster/protocol";
import { type Change, type ControllerEffect, command } from "../events.ts";
import { type ControllerState, type Member, membersOf, withMember } from "../state.ts";
import { type FleetReplica, withFleet } from "./fleet-state.ts";
import { isOff } from "./plan-fleet.ts";
import { isDue, isOn, ranksOf } from "./ranks.ts";

/** Sends new assignments, and the last one again to a node that did not acknowledge it. Pure. */
export function planAssign(state: ControllerState): Change<ControllerState> | null {
  const effects: ControllerEffect[] = [];
  let next = state;
  for (const member of membersOf(state, "node")) {
    const node = next.fleet.nodes[member.id];
    if (!node || member.order?.kind === "replica.stop") continue;
    const { replicas, ranks } = assignmentOf(next, member);
    const assigned = JSON.stringify(ranks.length > 0 ? { replicas, ranks } : replicas);
    const isLost = member.order === null && node.acked < node.revision;
    if (assigned === node.assigned && !isLost) continue;
    const revision = next.fleet.revision + 1;
    const nodes = { ...next.fleet.nodes, [member.id]: { ...node, revision, assigned } };
    const dueAtMs = state.nowMs + state.plan.timing.commandMs;
    next = withMember(withFleet(next, { nodes, revision }), member.id, {
      order: { kind: "node.assign", revision, dueAtMs },
    });
    effects.push(command(member, "node.assign", { revision, replicas, ...(ranks.length > 0 ? { ranks } : {}) }));
  }
  return effects.length > 0 ? { state: next, effects } : null;
}

/**
 * What should run on a node: who is released stays until it has left the job, so that it can hand its work back. When the job is over nobody
 * who has left it, or was evicted, runs again.
 */
function assignmentOf(state: ControllerState, { id: node }: Member) {
  const own = Object.entries(state.fleet.replicas).filter(([id, replica]) => {
    if (!isOn(replica, node) || replica.health === "RETIRED") return false;
    const isGone = (isOff(state, replica) || state.ending?.announced === true) && !state.members[id];
    return !isGone;
  });
  const replicas: Body<"node.assign">["replicas"] = own.flatMap(([id, { role, life, devices, group }]) =>
    group ? [] : [{ id, role, life, ...(devices ? { devices: [...devices] } : {}) }],
  );
  return { replicas, ranks: own.flatMap(([id, replica]) => rankOrdersOf(state, id, replica, node)) };
}

const loopback = "127.0.0.1";

/** What a node is told of its processes of a replica of several; none of a replica of one. */
function rankOrdersOf(state: ControllerState, id: string, replica: FleetReplica, node: string): RankOrder[] {
  const { role, life, group } = replica;
  if (!group) return [];
  const ranks = ranksOf(replica);
  const sizes = new Map<string, number>();
  const places = ranks.map((rank) => {
    const host = state.members[rank.node]?.host ?? "";
    const localRank = sizes.get(host) ?? 0;
    sizes.set(host, localRank + 1);
    return { host, localRank };
  });
  const order = [...sizes.keys()];
  const address = order.length === 1 ? loopback : (state.fleet.nodes[replica.node ?? ""]?.address ?? loopback);
  const port = group.master?.life === life ? group.master.port : 0;
  const mayBegin = isDue(state, replica);
  return ranks.flatMap(({ node: place, devices }, rank) => {
    if (place !== node) return [];
    const { host = "", localRank = 0 } = places[rank] ?? {};
    return {
      ...{ id, role, rank, life, isDue: mayBegin && (rank === 0 || port > 0) },
      ...{ size: ranks.length, localRank, localSize: sizes.get(host) ?? 1 },
      ...{ nodeRank: order.indexOf(host), master: { address, port: rank === 0 ? 0 : port } },
      ...(devices ? { devices: [...devices] } : {}),
    };
  });
}
