/** The processes of replicas: one for most, several for those whose role has them. */
import type { NodeCapability, ReplicaRole } from "@muster/protocol";
import type { ControllerState } from "../state.ts";
import { type FleetGroup, type FleetRank, type FleetReplica, withReplica } from "./fleet-state.ts";

/** Processes of a replica of a role. Pure. */
export function processesOf({ plan }: Pick<ControllerState, "plan">, role: ReplicaRole): number {
  return plan.processes?.[role] ?? 1;
}

/** True for a node that can run replicas of a role: one of an earlier version does not know of those of several processes. Pure. */
export function canRun(state: Pick<ControllerState, "plan" | "fleet">, node: string, role: ReplicaRole): boolean {
  const needed: NodeCapability = "ranks";
  return processesOf(state, role) === 1 || (state.fleet.nodes[node]?.capabilities?.includes(needed) ?? false);
}

/** A group that has not begun. Pure. */
export function freshGroup(ranks: readonly FleetRank[]): FleetGroup {
  return { ranks, leftovers: [], master: null, begunAtMs: null, restartAtMs: 0, losses: [] };
}

/** The processes of a replica that has a place, from rank 0 on. Pure. */
export function ranksOf(replica: FleetReplica): readonly FleetRank[] {
  const { node, devices, group, ended } = replica;
  if (node === null) return [];
  const first: FleetRank = { node, ...(devices ? { devices } : {}), process: replica.process, ended };
  return [first, ...(group?.ranks ?? [])];
}

/** The processes on a node, each as its replica. Pure. */
export function processesOn({ fleet }: Pick<ControllerState, "fleet">, node: string): readonly FleetReplica[] {
  return Object.values(fleet.replicas).flatMap((replica) => {
    if (!replica.group) return replica.node === node ? [replica] : [];
    return ranksOf(replica).flatMap((rank) => (rank.node === node ? [replica] : []));
  });
}

/** True when a process of a replica has its place on a node. Pure. */
export function isOn({ node, group }: FleetReplica, id: string): boolean {
  return node === id || (group?.ranks.some((rank) => rank.node === id) ?? false);
}

/** True when no process of a replica is known to run. Pure. */
export function isQuiet(replica: FleetReplica): boolean {
  const { group } = replica;
  if (replica.process !== null || !group) return replica.process === null;
  return group.leftovers.length === 0 && group.ranks.every((rank) => rank.process === null);
}

/** True when the next life may begin: its time has come, and nobody of an earlier one is left. Pure. */
export function isDue(state: Pick<ControllerState, "nowMs">, replica: FleetReplica): boolean {
  const { life, group } = replica;
  if (!group || state.nowMs < group.restartAtMs || group.leftovers.length > 0) return false;
  return ranksOf(replica).every((rank) => rank.process === null || rank.process.life >= life);
}

/** A state in which a rank of a replica of several has another process. Pure. */
export function withProcess(
  state: ControllerState,
  { id, rank }: { readonly id: string; readonly rank: number },
  started: FleetRank["process"],
): ControllerState {
  const group = state.fleet.replicas[id]?.group;
  if (rank === 0 || !group) return withReplica(state, id, { process: started });
  const ranks = group.ranks.map((each, i) => (i === rank - 1 ? { ...each, process: started } : each));
  return withReplica(state, id, { group: { ...group, ranks } });
}

/** A state in which a life of a rank of a replica of several has ended. Pure. */
export function withEnded(
  state: ControllerState,
  { id, rank }: { readonly id: string; readonly rank: number },
  life: number,
): ControllerState {
  const { group, ended = 0 } = state.fleet.replicas[id] ?? {};
  if (rank === 0 || !group) return withReplica(state, id, { ended: Math.max(ended, life) });
  const ranks = group.ranks.map((each, i) =>
    i === rank - 1 ? { ...each, ended: Math.max(each.ended ?? 0, life) } : each,
  );
  return withReplica(state, id, { group: { ...group, ranks } });
}

/** A state in which some processes of lives that are over have ended, or can not be asked for any more. Pure. */
export function withoutLeftovers(
  state: ControllerState,
  id: string,
  isGone: (left: FleetGroup["leftovers"][number]) => boolean,
): ControllerState {
  const group = state.fleet.replicas[id]?.group;
  if (!group?.leftovers.some(isGone)) return state;
  return withReplica(state, id, { group: { ...group, leftovers: group.leftovers.filter((left) => !isGone(left)) } });
}
