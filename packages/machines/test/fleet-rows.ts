/** Rows of the fleet to start a test from: a replica of one process or of several, on nodes that can run them. */
import type { ControllerState } from "@muster/machines/controller";
import type { FleetGroup, FleetNode, FleetReplica } from "../src/controller/fleet/fleet-state.ts";
import { memberOf, working } from "./states.ts";

/** A healthy sampler on node n0, in its first life. */
export function replicaOf(patch: Partial<FleetReplica> = {}): FleetReplica {
  return {
    ...{ role: "rollout", seq: 0, node: "n0", health: "HEALTHY", life: 1, process: { pid: 7, life: 1 }, ended: 0 },
    ...{ member: null, deaths: 0, leaving: false, replacedBy: null },
    ...patch,
  };
}

/** Ranks 1 and 2 of a replica on nodes n1 and n2, all of the first life. */
export function groupOf(patch: Partial<FleetGroup> = {}): FleetGroup {
  const ranks = ["n1", "n2"].map((node, i) => ({ node, process: { pid: 11 + i, life: 1 } }));
  return { ranks, leftovers: [], master: { life: 1, port: 9 }, begunAtMs: 0, restartAtMs: 0, losses: [], ...patch };
}

/** A node with room for everything. */
function nodeOf(patch: Partial<FleetNode> = {}): FleetNode {
  const capacity = { policy: null, rollout: null, checkpoint: null };
  return {
    ...{ incarnation: "", capacity, capabilities: ["ranks"], revision: 1, acked: 1, signs: [], assigned: "" },
    ...patch,
  };
}

interface Rows {
  readonly replicas?: Readonly<Record<string, FleetReplica>>;
  readonly nodes?: Readonly<Record<string, Partial<FleetNode>>>;
  /** Hosts of the nodes; "h" where nothing is said. */
  readonly hosts?: Readonly<Record<string, string>>;
  /** Members beside the nodes. */
  readonly members?: ControllerState["members"];
  readonly patch?: Partial<ControllerState>;
}

/** A job with these rows, and with its nodes as members. */
export function fleetOf({ replicas = {}, nodes = {}, hosts = {}, members = {}, patch = {} }: Rows): ControllerState {
  const state = working({ members: [] });
  const there = Object.keys(nodes).map((id, i) => memberOf(id, i + 1, { role: "node", host: hosts[id] ?? "h" }));
  const rows = Object.entries(nodes).map(([id, node]) => [
    id,
    nodeOf({ ...node, incarnation: there.find((one) => one.id === id)?.incarnation ?? "" }),
  ]);
  const fleet = { ...state.fleet, replicas, nodes: Object.fromEntries(rows) };
  const table = { ...Object.fromEntries(there.map((member) => [member.id, member])), ...members };
  return { ...state, fleet, members: table, ...patch };
}
