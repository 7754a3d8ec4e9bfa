/** What a node hears, asks of its host, and remembers. */
import type { Body, RankOrder, ReplicaRole } from "@muster/protocol";
import type { CommandEvent, DropEffect, RegisteredEvent, ReportEffect } from "../replica-events.ts";

/** What a node asks of its host. */
export type NodeEffect =
  | ReportEffect
  | DropEffect
  /** End what an earlier life left; answers `keeper.cleaned`. */
  | { readonly type: "keeper.clean" }
  /** Start a process; answers `keeper.started`, later `keeper.exited`. */
  | {
      readonly type: "keeper.start";
      readonly id: string;
      readonly role: ReplicaRole;
      readonly life: number;
      /** Devices that it sees and no other one; `null`: all that its node sees. */
      readonly devices: readonly string[] | null;
      /** Of a process of a replica of several: which it is, and where the others are met. */
      readonly rank?: RankOrder;
    }
  /** End the process group of a replica: `term` asks it to leave, `kill` ends it at once. */
  | { readonly type: "keeper.end"; readonly id: string; readonly how: "term" | "kill" }
  /** Send a signal for a command; answers `keeper.signalled`. */
  | { readonly type: "keeper.signal"; readonly body: Body<"node.signal">; readonly pid: number };

/** What a node hears. */
export type NodeEvent =
  | CommandEvent<"node.assign" | "node.signal" | "replica.stop" | "replica.fenced">
  | RegisteredEvent
  /** Processes of an earlier life are ended, and what they left is gone. */
  | {
      readonly type: "keeper.cleaned";
      readonly ended: readonly { readonly id: string; readonly pid: number }[];
      /** Where this host is reached in the network that the job names. */
      readonly address?: string;
    }
  | {
      readonly type: "keeper.started";
      readonly id: string;
      readonly life: number;
      readonly pid: number;
      /** The port that was reserved for the ranks of a replica to meet. */
      readonly port?: number;
    }
  | {
      readonly type: "keeper.exited";
      readonly atMs: number;
      readonly id: string;
      readonly life: number;
      readonly pid: number;
      readonly code: number | null;
      readonly signal: string | null;
      readonly oom: boolean;
      /** Its last sentence. */
      readonly words?: string;
    }
  | { readonly type: "keeper.signalled"; readonly body: Body<"node.signalled"> }
  /** What the node sees on its host, each time that it looks. */
  | { readonly type: "host.signs"; readonly signs: Body<"node.signs">["signs"] }
  /** The pause before the next start is over. */
  | { readonly type: "keeper.due"; readonly id: string }
  /** A process that was asked to leave is still there. */
  | { readonly type: "keeper.late"; readonly id: string };

/** Who a node is, and how long it waits. */
export interface NodeInput {
  readonly host: string;
  readonly capacity: Body<"node.ready">["capacity"];
  /** How long a process that was asked to leave may take. */
  readonly graceMs: number;
}

/** A process that this node runs, or did: a replica, or a rank of one. Its name is that of `processNameOf`. */
export interface Kept {
  readonly role: ReplicaRole;
  /** False once it is not in the assignment: it ends and is forgotten. */
  readonly isWanted: boolean;
  /** Lowest life that may run. */
  readonly least: number;
  /** The life that was started last. */
  readonly life: number;
  /** `waiting`: another process has its devices still. `left`: ended by itself; a higher life must be asked for. `retired`: given up. */
  readonly state: "running" | "ending" | "pausing" | "waiting" | "left" | "retired";
  /** Devices that its next process gets; `null`: whatever its node sees. */
  readonly devices: readonly string[] | null;
  /** Devices of the process that was started last. */
  readonly held: readonly string[] | null;
  readonly pid: number | null;
  /** Of a rank of a replica of several: what the controller said last. It alone says when another life begins. */
  readonly rank?: RankOrder;
  /** Times of the deaths that count. */
  readonly deaths: readonly number[];
  /** When the last life ended, whatever ended it; `null` before the first end. */
  readonly endedAtMs: number | null;
}

/** What a node remembers; plain JSON. */
export interface NodeContext extends NodeInput {
  readonly phase: "waiting" | "keeping" | "ended";
  readonly revision: number;
  readonly kept: Readonly<Record<string, Kept>>;
  /** The signs that were reported last. */
  readonly signs: Body<"node.signs">["signs"];
  /** The last commands carried out, so that a repeated one is known. */
  readonly signalled: readonly string[];
}
