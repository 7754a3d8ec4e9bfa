/** Replicas that wait for a place, in words: who, for what, and what each node has. */
import { listText } from "@muster/base";
import { type ReplicaRole, replicaRoles, traitsOf } from "@muster/protocol";
import { type ControllerState, countOf } from "../state.ts";
import { devicesNeeded, devicesOf, freeDevices } from "./devices.ts";
import { isCounted } from "./fleet-state.ts";
import { roomFor, roomsOf } from "./place.ts";
import { canRun, processesOf } from "./ranks.ts";
import { sharedHosts } from "./shared-host.ts";

/** Sentences about replicas that wait for devices, for room for all of their processes, or for a node that may keep files. None where nobody does. Pure. */
export function placeShortages(state: ControllerState): readonly string[] {
  const { fleet, plan } = state;
  const isAsked = plan.devices !== undefined || plan.processes !== undefined;
  if (state.ending || Object.keys(fleet.nodes).length === 0) return [];
  return replicaRoles.flatMap((role) => {
    // Looked at after every report, so that who is there is counted before who waits is looked for.
    const isFileless = traitsOf(role).keepsFiles && countOf(state, role) < fleet.wanted[role];
    const waiting = isAsked || isFileless ? waitingOf(state, role) : 0;
    if (waiting === 0) return [];
    if (processesOf(state, role) > 1) return roomFor(state, role) ? [] : [groupShortage(state, role, waiting)];
    const devices = deviceShortage(state, role, waiting);
    return devices.length === 0 && isFileless ? fileShortage(state, role, waiting) : devices;
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

/** Nobody saves anything where the trainers are. */
function fileShortage(state: ControllerState, role: ReplicaRole, waiting: number): readonly string[] {
  if (roomFor(state, role)) return [];
  const [host] = sharedHosts(state);
  const there = host === undefined ? "" : ` on ${host}, where the trainers are`;
  return [
    `${role}: ${whoOf(waiting)} a node with room for it${there}; start one there (muster node --capacity ${role}=${waiting}), uncordon one, or scale down`,
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
