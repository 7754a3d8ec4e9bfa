/** The fleet: what should run where, and how it is. Plain JSON, part of the controller's state (semantics 1 DO, 6.16). */
import { type Body, type fleetHealths, perRole, type ReplicaRole } from "@muster/protocol";
import type { AtMs } from "../at-ms.ts";

/** Health of a managed replica. */
export type FleetHealth = (typeof fleetHealths)[number];

/** A process of a replica of several: where it has its place, and what its node reported. */
export interface FleetRank {
  readonly node: string;
  /** Devices of its node that are its own. Absent in jobs that give none to any role. */
  readonly devices?: readonly string[];
  readonly process: { readonly pid: number; readonly life: number } | null;
  /** Highest life that ended: a report of its start that comes again is old news. Absent before the first end; of rank 0 its replica knows it. */
  readonly ended?: number;
}

/** What a replica of several processes has besides: its other ranks, and how all of them begin as one. */
export interface FleetGroup {
  /** Ranks from 1 on; none without a place. Rank 0 is the replica's own row. */
  readonly ranks: readonly FleetRank[];
  /** Processes of a life that is over, on nodes where the replica has no place any more. */
  readonly leftovers: readonly { readonly node: string; readonly pid: number }[];
  /** Where the ranks of a life meet: the port that the node of rank 0 reserved. */
  readonly master: { readonly life: number; readonly port: number } | null;
  /** When rank 0 of the last life began; `null` before. */
  readonly begunAtMs: AtMs | null;
  /** When the next life may begin. */
  readonly restartAtMs: AtMs;
  /** The losses that count towards giving it up. */
  readonly losses: readonly AtMs[];
}

/** A replica that nodes keep running. */
export interface FleetReplica {
  readonly role: ReplicaRole;
  /** Order of making; the youngest goes first when there are too many. */
  readonly seq: number;
  /** The node that should run it; `null` while no node has room. */
  readonly node: string | null;
  /** Devices of its node that are its own. Absent without a node, and in jobs that give none to any role. */
  readonly devices?: readonly string[];
  readonly health: FleetHealth;
  /** Lowest life that may run: raised to have its node end the process and start another. */
  readonly life: number;
  /** The process that its node reported. */
  readonly process: { readonly pid: number; readonly life: number } | null;
  /** Highest life that ended: a report of its start that comes later is old news. */
  readonly ended: number;
  /** The member that was seen last. */
  readonly member: { readonly incarnation: string; readonly pid: number } | null;
  readonly deaths: number;
  /** Released for good: it drains, and leaves the table. */
  readonly leaving: boolean;
  /** The replica that takes its place once that one is healthy. */
  readonly replacedBy: string | null;
  /** Of a replica of several processes; absent for one. */
  readonly group?: FleetGroup;
}

/** A node that said what it has room for. */
export interface FleetNode {
  readonly incarnation: string;
  readonly capacity: Body<"node.ready">["capacity"];
  /** Where its host is reached by others. Absent where the job names no network. */
  readonly address?: string;
  /** What it can do beyond the first version; absent: nothing. */
  readonly capabilities?: Body<"node.ready">["capabilities"];
  /** The assignment sent last, and the one that the node acknowledged. */
  readonly revision: number;
  readonly acked: number;
  /** Until when its replicas may wait for successors: it was told to end, and does so by itself. Absent while it was not. */
  readonly leaveDueAtMs?: AtMs;
  /** What its host shows of a failure to come. */
  readonly signs: Body<"node.signs">["signs"];
  /** What the last assignment says, to see whether another one is due. */
  readonly assigned: string;
}

/** Counts of replicas by role. */
export type ReplicaCounts = Readonly<Record<ReplicaRole, number>>;

/** A command of an operator: what was asked, and what became of it. */
export interface CommandRow {
  readonly kind: string;
  readonly by: string;
  /** The body as JSON, without the command's id. */
  readonly asked: string;
  readonly seq: number;
  /** `null` while it is being done. */
  readonly answer: CommandAnswer | null;
  /** What it is about: a member, a node, another command. */
  readonly target: string | null;
  /** The new replica of a replacement. */
  readonly replacement: string | null;
  /** Counts before a scaling, for whoever takes it back. */
  readonly before: ReplicaCounts | null;
  /** The term in which its order was sent to a node. */
  readonly sentTerm: number;
}

/** How a command ended. */
export type CommandAnswer =
  | { readonly outcome: "done" | "cancelled" | "superseded"; readonly detail: string }
  | { readonly outcome: "refused"; readonly detail: string };

/** The whole fleet. */
export interface FleetState {
  readonly wanted: ReplicaCounts;
  readonly replicas: Readonly<Record<string, FleetReplica>>;
  readonly nodes: Readonly<Record<string, FleetNode>>;
  /** Ids of nodes and replicas that get no new work. */
  readonly cordoned: readonly string[];
  /** Replicas made so far by role; numbers are not used twice. */
  readonly made: ReplicaCounts;
  readonly revision: number;
  /** Since when too few replicas are healthy, and whether the operator was told. */
  readonly shortage: { readonly sinceMs: AtMs; readonly isTold: boolean } | null;
  readonly commands: Readonly<Record<string, CommandRow>>;
  readonly commandsMade: number;
  /** By role: `ready` once a replica of it was, before that how many starts failed for which reason. Absent before the first of either. */
  readonly starts?: Readonly<Partial<Record<ReplicaRole, "ready" | Readonly<Record<string, number>>>>>;
}

const none: ReplicaCounts = perRole(() => 0);

/** A fleet before the first node. Pure. */
export function initialFleet(wanted: ReplicaCounts): FleetState {
  return {
    wanted,
    replicas: {},
    nodes: {},
    cordoned: [],
    made: none,
    revision: 0,
    shortage: null,
    commands: {},
    commandsMade: 0,
  };
}

/** True for a replica that counts towards the wanted number of its role. Pure. */
export function isCounted({ leaving, replacedBy, health }: FleetReplica): boolean {
  return !leaving && replacedBy === null && health !== "RETIRED";
}

/** True when an id is kept free of new work. Pure. */
export function isCordoned({ fleet }: { readonly fleet: FleetState }, id: string): boolean {
  return fleet.cordoned.includes(id);
}

/** A state with one replica of the fleet changed; unchanged when there is none. Pure. */
export function withReplica<S extends { readonly fleet: FleetState }>(
  state: S,
  id: string,
  patch: Partial<FleetReplica>,
): S {
  const replica = state.fleet.replicas[id];
  if (!replica) return state;
  return withFleet(state, { replicas: { ...state.fleet.replicas, [id]: { ...replica, ...patch } } });
}

/** A state with a part of its fleet changed. Pure. */
export function withFleet<S extends { readonly fleet: FleetState }>(state: S, patch: Partial<FleetState>): S {
  return { ...state, fleet: { ...state.fleet, ...patch } };
}
