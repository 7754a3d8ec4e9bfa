/** Everything that a seed may let go wrong, as plain data: a run is its shape plus this list, so the list can be shrunk. */
import type { Kind } from "@muster/protocol";
import type { StreamName } from "@muster/transport";
import type { Command } from "../fleet/command.ts";
import type { Noise } from "../net/link.ts";
import type { Arm } from "./failpoints.ts";
import type { StolenRole } from "./thief.ts";

/** Which node a timed fault hits. */
export interface Target {
  /** Id of a node, e.g. `policy-2` or `controller`. */
  readonly node: string;
}

/** One fault. Times are virtual milliseconds from the start. */
export type Fault =
  /** SIGKILL. `isSeen`: the supervisor tells the controller at once. */
  | ({ readonly kind: "kill"; readonly atMs: number; readonly isSeen: boolean } & Target)
  /** The host of a replica is lost for good: nobody starts it again, in this run. */
  | ({ readonly kind: "gone"; readonly atMs: number } & Target)
  /** SIGKILL to every node of a role. */
  | { readonly kind: "kill-all"; readonly atMs: number; readonly role: string; readonly isSeen: boolean }
  /** SIGSTOP and SIGCONT; a supervisor may start a second life meanwhile. */
  | ({ readonly kind: "pause" | "hang"; readonly atMs: number; readonly forMs: number } & Target)
  /** A process of a trainer hears nothing any more, for good: its main thread is in an endless loop. Only the end of its replica ends it. */
  | ({ readonly kind: "stick"; readonly atMs: number } & Target)
  /** The host of a process is suspended, as a virtual machine is: its monotonic clock does not count that time. */
  | ({ readonly kind: "suspend"; readonly atMs: number; readonly forMs: number } & Target)
  /** Everything that a process does takes `factor` times as long. */
  | ({ readonly kind: "slow"; readonly atMs: number; readonly forMs: number; readonly factor: number } & Target)
  /** The wall clock of a process jumps; nothing may depend on it. */
  | ({ readonly kind: "clock-jump"; readonly atMs: number; readonly byMs: number } & Target)
  /** SIGTERM, and a new start after it has left. */
  | ({ readonly kind: "drain"; readonly atMs: number } & Target)
  /** A host loses its power: the node and all that it runs. */
  | ({ readonly kind: "kill-host"; readonly atMs: number } & Target)
  /** The host of a node shows signs of a failure to come. */
  | ({ readonly kind: "ailing-host"; readonly atMs: number; readonly forMs: number } & Target)
  /** The operator asks something of the fleet, and again with the same id after each of these times. */
  | {
      readonly kind: "command";
      readonly atMs: number;
      readonly id: string;
      readonly command: Command;
      readonly againMs: readonly number[];
    }
  /** Connection reset, both ends know. */
  | ({ readonly kind: "disconnect"; readonly atMs: number; readonly forMs: number } & Target)
  /** Silent cut, both ways or one way. */
  | ({
      readonly kind: "partition";
      readonly atMs: number;
      readonly forMs: number;
      readonly way: "both" | "up" | "down";
    } & Target)
  /** Two replicas cannot reach each other on the data plane. */
  | {
      readonly kind: "data-cut";
      readonly atMs: number;
      readonly forMs: number;
      readonly between: readonly [string, string];
    }
  /** Transfers of weights arrive with a changed byte. */
  | { readonly kind: "corruption"; readonly atMs: number; readonly forMs: number; readonly rate: number }
  /** A replica computes wrong bits. */
  | ({ readonly kind: "bit-flip"; readonly atMs: number; readonly forMs: number } & Target)
  /** The broker goes away and comes back with what it had stored. */
  | { readonly kind: "broker-restart"; readonly atMs: number; readonly forMs: number }
  /** The same, and what a stream stored in the last `lostMs` before is gone: it was not synced. */
  | {
      readonly kind: "suffix-loss";
      readonly atMs: number;
      readonly forMs: number;
      readonly stream: StreamName | "state";
      readonly lostMs: number;
    }
  /** The broker forgets every durable consumer. */
  | { readonly kind: "consumer-expiry"; readonly atMs: number }
  /** The broker elects a leader: connections stay, nothing is stored or delivered, and what was under way is in doubt. */
  | { readonly kind: "broker-stall"; readonly atMs: number; readonly forMs: number }
  /** Somebody publishes what nobody said: noise, pieces of messages, messages under another's name, old messages again. */
  | { readonly kind: "forgery"; readonly atMs: number; readonly count: number }
  /** Replicas say what is not so, under their own names: of what was said last about one of these matters another version. */
  | { readonly kind: "lie"; readonly atMs: number; readonly about: readonly Kind[] }
  /** Somebody has the credentials of a replica and says whatever the broker lets it. */
  | { readonly kind: "theft"; readonly atMs: number; readonly role: StolenRole; readonly count: number }
  /** The next messages of finished groups are stored as noise: their receipts point to what nobody can read. */
  | { readonly kind: "spoil"; readonly atMs: number; readonly count: number }
  /** The next receipts say what can not be true, in messages that are sound otherwise. */
  | { readonly kind: "misreport"; readonly atMs: number; readonly count: number }
  /** An operator starts a second controller while the first one lives. */
  | { readonly kind: "second-controller"; readonly atMs: number }
  /** The host of the checkpoints loses power: its processes die, unsynced writes are lost in part. */
  | { readonly kind: "power-loss"; readonly atMs: number }
  /** A bit of the newest checkpoint flips at rest; `isFatal`: then every trainer dies, so that it is asked for. */
  | { readonly kind: "rot"; readonly atMs: number; readonly isFatal: boolean }
  /** Bad network during the whole safety phase. */
  | { readonly kind: "noise"; readonly noise: Noise }
  /** A named place in the protocol. */
  | ({ readonly kind: "failpoint" } & Arm);

/** Name under which a fault is counted. */
export function nameOf(fault: Fault): string {
  if (fault.kind === "failpoint") return `failpoint-${fault.action.type}`;
  if (fault.kind === "command") return fault.command.kind;
  if (fault.kind === "suffix-loss") return `suffix-loss-${fault.stream}`;
  if (fault.kind === "lie") return fault.about.length > 1 ? "lie" : `lie-${fault.about[0]}`;
  if (fault.kind === "theft") return `theft-${fault.role}`;
  return fault.kind === "partition" ? `partition-${fault.way}` : fault.kind;
}

type ChangeFault = Extract<Fault, { kind: "command" }> & {
  readonly command: Extract<Command, { kind: "job.change" }>;
};

/** True when the operator changes settings of the job. Pure. */
export function isChange(fault: Fault): fault is ChangeFault {
  return fault.kind === "command" && fault.command.kind === "job.change";
}
