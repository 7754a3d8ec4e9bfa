/** What passes over the wire of the simulation, who watches it, and what a connection needs of the network it belongs to. */
import type { StreamBytes, StreamName, Transport } from "@muster/transport";
import type { Failpoints } from "../faults/failpoints.ts";
import type { SimProcess } from "../world/process.ts";
import type { World } from "../world/world.ts";
import type { Link } from "./link.ts";
import type { Tampering } from "./tampering.ts";

/** A message that the broker has stored. */
export interface StoredMessage {
  readonly stream: StreamName;
  readonly seq: number;
  readonly subject: string;
  readonly data: Uint8Array;
  readonly by: SimProcess;
}

/** A message on its way into a process. */
export interface HeardMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly by: SimProcess;
}

/** Who watches the wire. Called at the very moment, by the world and not by a process. */
export interface WireObserver {
  stored(message: StoredMessage): void;
  /** The broker removed what lies before a sequence. */
  purged?(purge: { readonly stream: StreamName; readonly beforeSeq: number; readonly by: SimProcess }): void;
  /** A process took a message in and did not refuse it at once. */
  accepted(message: HeardMessage): void;
  /** A handler of a process threw: production reports that, and a simulation has found something. */
  failed?(error: unknown): void;
}

/** Changes bytes on the wire, for canary bugs. */
export interface WireBug {
  /** Before a process hears a message. */
  hearing?(message: HeardMessage): Uint8Array;
  /** Before a record is stored. */
  writing?(data: Uint8Array, seq: number): Uint8Array;
  /** What a snapshot covers is removed before the snapshot is whole. */
  readonly purgesEarly?: boolean;
  /** A record counts as stored before it is. */
  readonly journalsLate?: boolean;
  /** The last record of the journal is not read. */
  readonly readsShort?: boolean;
  /** Readers do not notice that their consumers are gone. */
  readonly missesExpiry?: boolean;
  /** A controller does not hear that its connection is or was away. */
  readonly hidesOutage?: boolean;
  /** A record is appended whatever was appended meanwhile. */
  readonly ignoresFence?: boolean;
}

/** What a network is made of. */
export interface NetworkOptions {
  readonly world: World;
  readonly job: string;
  readonly failpoints: Failpoints;
  readonly observer: WireObserver;
  readonly bug?: WireBug | undefined;
  /** Bytes that a stream may hold, where it is not what production's do. */
  readonly bytesMax?: StreamBytes | undefined;
  /** Bytes of the largest message of a stream, where it is not what brokers take. */
  readonly messageMax?: StreamBytes;
}

/** The network as one of its connections sees it. */
export interface Wire {
  readonly options: NetworkOptions;
  /** The broker's own hand: always connected. */
  readonly store: Transport;
  readonly tampering: Tampering;
  /** When a call that nobody has answered is made again; `null` where the transport below does that itself. */
  readonly triesAgainMs: number | null;
  /** A message was stored. */
  remember(subject: string, data: Uint8Array): void;
  /** True while the broker has no leader. */
  readonly isStalled: boolean;
  /** Does something once the broker has a leader: now, or when it is elected. */
  whenServing(run: () => void): void;
  /** The process has closed this connection. */
  forget(link: Link): void;
}
