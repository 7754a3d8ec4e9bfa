/** Replicas that wait for a place, in words: who, for what, and what each node has. */
import { listText } from "@muster/base";
import { type ReplicaRole, replicaRoles, traitsOf } from "@muster/protocol";
import type { ControllerState } from "../state.ts";
import { devicesNeeded, devicesOf, freeDevices } from "./devices.ts";
import { isCounted } from "./fleet-state.ts";
import { roomFor, roomsOf } from "./place.ts";
import { canRun, processesOf } from "./ranks.ts";

/** Sentences about replicas that wait for devices, or for room for all of their processes. None where nobody does. Pure. */
export function placeShortages(state: ControllerState): readonly string[] {
  const { fleet, plan } = state;
  const isAsked = plan.devices !== undefined || plan.processes !== undefined;
  if (!isAsked || state.ending || Object.keys(fleet.nodes).length === 0) return [];
  return replicaRoles.flatMap((role) => {
    const waiting = waitingOf(state, role);
    if (waiting === 0) return [];
    if (processesOf(state, role) > 1) return roomFor(state, role) ? [] : [groupShortage(state, role, waiting)];
    return deviceShortage(state, role, waiting);
  });
}

function waitingOf({ fleet }: ControllerState, role: ReplicaRole): number {
  const own = Object.values(fleet.replicas).filter((each) => each.role === role && !each.leaving);
  const absent = Math.max(0, fleet.wanted[role] - own.filter(isCounted).length);
  return absent + own.filter(({ node, health }) => node === null && health !== "RETIRED").length;
}

const whoOf = (waiting: number): string => (waiting === 1 ? "1 waits for" : `${waiting} wait, each for`);

function deviceShortage(state: ControllerState, role: ReplicaRole, waiting: number): readonly string[] {
  const { fleet, plan } = state;
  const needed = devicesNeeded(state, role);
  const nodes = Object.keys(fleet.nodes).filter((id) => !fleet.cordoned.includes(id));
  if (needed === 0 || nodes.some((id) => freeDevices(state, id).length >= needed)) return [];
  const ranks = traitsOf(role).hasRanks ? plan.rolloutRanks : 1;
  const asked = `devices.${role} = ${needed / ranks}${ranks > 1 ? `, rollout.ranks = ${ranks}` : ""}`;
  const each = nodes.map((id) => `${id} ${freeDevices(state, id).length} of ${devicesOf(state, id).length}`);
  const have = each.length === 0 ? "every node is cordoned" : `free: ${listText(each)}`;
  return [
    `${role}: ${whoOf(waiting)} ${needed} devices of one node (${asked}; ${have}); start a node with free devices (muster node --devices), scale down, or lower devices.${role}`,
  ];
}

/** All of its processes find room, or none begins. */
function groupShortage(state: ControllerState, role: ReplicaRole, waiting: number): string {
  const { fleet } = state;
  const [count, needed] = [processesOf(state, role), devicesNeeded(state, role)];
  const free = new Map(roomsOf(state, role).map((room) => [room.node.id, room.free]));
  const nodes = Object.keys(fleet.nodes).filter((id) => !fleet.cordoned.includes(id));
  const have = nodes.map((id) => (canRun(state, id, role) ? `${id} ${free.get(id) ?? 0}` : `${id} cannot run ranks`));
  const room = have.length === 0 ? "every node is cordoned" : `room: ${listText(have)}`;
  const total = [...free.values()].reduce((sum, each) => sum + each, 0);
  const hosts = total >= count ? "; to be on several hosts, the job has to name their network in data.tcp_host" : "";
  const isOld = nodes.some((id) => !canRun(state, id, role));
  const upgrade = isOld ? "; start the nodes that cannot run ranks with this release of muster" : "";
  const [each, asked] =
    needed > 0 ? [` of ${needed} device${needed === 1 ? "" : "s"}`, `, devices.${role} = ${needed}`] : ["", ""];
  return `${role}: ${whoOf(waiting)} room for ${count} processes${each} (processes.${role} = ${count}${asked}; ${room})${hosts}${upgrade}; start a node with more room, scale down, or lower processes.${role}`;
}
