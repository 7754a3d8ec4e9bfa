/**
 * The ports through which control bytes move and persist. Two implementations keep the same promises and pass the same suite:
 * `nats/` (JetStream) and `memory/` (one process). Bytes are opaque here; what they mean is the business of `@muster/protocol`.
 */
import type { MusterError } from "@muster/base";
import type { StreamName } from "./streams.ts";

/** One message of a durable consumer. It comes again until `ack` or `term`: at least once, in order unless redelivered. */
export interface Delivery {
  readonly subject: string;
  /** Owned by the transport: read it, copy what is kept, never write to it. */
  readonly data: Uint8Array;
  /** Sequence in the stream, from 1. */
  readonly seq: number;
  /** How often it was delivered before; 0 at first. */
  readonly redeliveries: number;
  /** Done with it. Lost when disconnected; then it is delivered again. */
  ack(): void;
  /** Not now: deliver again after `delayMs` (default at once). */
  nak(delayMs?: number): void;
  /** Never deliver it again; for messages that can not be read. */
  term(): void;
}

/** What the broker says of a stored message. */
export interface PublishAck {
  /** Sequence in the stream, from 1. */
  readonly seq: number;
  /** True when a message with this id was stored before; `seq` is that one's. */
  readonly duplicate: boolean;
}

/** Something that goes on until closed. */
export interface Subscription {
  /** No call of the handler begins after this resolves. Harmless when called twice. */
  close(): Promise<void>;
}

/** State of the connection, or a fault that no caller is waiting for (refused subjects, lost consumers, failed handlers). */
export type TransportStatus =
  | { readonly type: "connected" | "disconnected" | "reconnected" | "closed" }
  | { readonly type: "error"; readonly error: MusterError };

/** How to read a stream durably. */
export interface ConsumeOptions {
  readonly stream: StreamName;
  /** Name of the durable consumer, unique in the stream: `controller`, or one per incarnation of an actor. */
  readonly consumer: string;
  /** Subject pattern of the messages wanted. */
  readonly filter: string;
  /** Where a consumer starts that did not exist before. A work queue always starts with `all`. */
  readonly deliver: "new" | "all";
  /** Bound of messages delivered and not yet acknowledged, ≥ 1; fixed when the consumer is made. */
  readonly maxPending: number;
  /** After how long without `ack` a message is delivered again; fixed when the consumer is made. Default 5 s. */
  readonly ackWaitMs?: number;
  /** Called once per delivery, synchronously. When it throws, the delivery is refused for a second and the fault reported. */
  readonly handle: (delivery: Delivery) => void;
}

/** One stored message as {@link Transport.tail} shows it. */
export interface TailEntry {
  readonly seq: number;
  readonly subject: string;
  readonly data: Uint8Array;
}

/** How full a stream is. */
export interface StreamUsage {
  /** What it holds, as its broker counts it: with subjects and headers, where there are any. */
  readonly bytes: number;
  /** What it may hold; `null` when nothing bounds it. */
  readonly bytesMax: number | null;
  /** Sequence of the newest message that it has taken; 0 before the first. */
  readonly lastSeq: number;
}

/** How to follow a stream without acknowledging. */
export interface TailOptions {
  readonly stream: StreamName;
  /** First sequence wanted (later when it was purged), or `new` for what is stored from now on. */
  readonly fromSeq: number | "new";
  /** Called in order, each sequence once, gaps only where messages were removed. */
  readonly handle: (entry: TailEntry) => void;
}

/** The connection of one actor to its job. */
export interface Transport {
  readonly job: string;
  /**
   * Stores a message in the stream of its subject. Tries again with the same id until `timeoutMs` (default 5 s), also across
   * reconnects, so an id is stored once however often it is sent (within two minutes).
   *
   * @throws MUSTER_ERR_PUBLISH_UNKNOWN when nothing was confirmed in time: publish again, same id.
   * @throws MUSTER_ERR_STREAM_FULL when the stream has no room: publish again, same id, until somebody has made room.
   * @throws MUSTER_ERR_BROKER_PERMISSION, MUSTER_ERR_BROKER_REFUSED, MUSTER_ERR_TRANSPORT_CLOSED
   */
  publish(
    subject: string,
    data: Uint8Array,
    options: { readonly msgId: string; readonly timeoutMs?: number },
  ): Promise<PublishAck>;
  /** Sends without storing; lost when disconnected, closed, or when nobody listens. */
  send(subject: string, data: Uint8Array): void;
  /** Listens to what is sent or published from now on; misses what passes while disconnected. @throws MUSTER_ERR_BROKER_PERMISSION */
  subscribe(pattern: string, handle: (subject: string, data: Uint8Array) => void): Promise<Subscription>;
  /** Reads a stream durably; survives reconnects and server restarts, and makes a lost consumer again where it stood. */
  consume(options: ConsumeOptions): Promise<Subscription>;
  /** Reads one message. @throws MUSTER_ERR_MESSAGE_GONE when it was removed or never stored. */
  fetch(stream: StreamName, seq: number): Promise<Uint8Array>;
  /** Removes every message with a sequence below `beforeSeq`. */
  purge(stream: StreamName, beforeSeq: number): Promise<void>;
  /** How full a stream is. Only the controller may ask. @throws MUSTER_ERR_BROKER_TIMEOUT */
  usage(stream: StreamName): Promise<StreamUsage>;
  /** Follows a stream in order, for watchers and standbys. */
  tail(options: TailOptions): Promise<Subscription>;
  /** The journal of the job. */
  journal(): Journal;
  /** The small shared state of the job. */
  state(): StateStore;
  /** Calls `listener` now with the present state and then at each change. @returns Stops the calls. */
  onStatus(listener: (status: TransportStatus) => void): () => void;
  isConnected(): boolean;
  /** Resolves when the broker has received everything sent so far. @throws MUSTER_ERR_BROKER_TIMEOUT after 5 s. */
  flush(): Promise<void>;
  /** Ends the connection at once, without draining: nothing more is delivered or sent. Harmless when called twice. */
  close(): Promise<void>;
}

/** One record of the journal. */
export interface JournalEntry {
  readonly seq: number;
  readonly data: Uint8Array;
  /** The `msgId` under which it was appended; empty when it was stored without one. */
  readonly msgId: string;
}

/** The controller's log: one writer at a time, by compare-and-set on the last record. */
export interface Journal {
  /** Sequence of the last record; 0 when empty. */
  head(): Promise<number>;
  /**
   * Appends one record if the last one is `expectedSeq`. Calling again with the same `msgId` and `expectedSeq` is harmless:
   * the record is recognised by its id, so an answer that was lost is not taken for a defeat.
   *
   * With `expectedId` the last record must have that id, too: a broker that lost the end of the journal gives its sequences again.
   *
   * @returns Sequence of the record, `expectedSeq + 1`.
   * @throws MUSTER_ERR_FENCED when somebody else wrote that record, or the one before it; MUSTER_ERR_JOURNAL_CUT when the broker lost records before it.
   * @throws MUSTER_ERR_JOURNAL_FULL when there is no room for the record: whoever could make some would have to write first, so
   *   that this is the end of the job.
   * @throws MUSTER_ERR_PUBLISH_UNKNOWN when nothing was confirmed in 5 s.
   */
  append(data: Uint8Array, expectedSeq: number, msgId: string, expectedId?: string): Promise<number>;
  /** Reads from `fromSeq` (later when purged) to the head as of the call, then ends. @throws MUSTER_ERR_BROKER_TIMEOUT */
  read(fromSeq: number): AsyncIterable<JournalEntry>;
}

/** A few small values with revisions: the controller's lease, the directory. Reads see the last confirmed write. */
export interface StateStore {
  /** The value and its revision, or `null` when there is none. */
  get(key: string): Promise<{ readonly value: Uint8Array; readonly revision: number } | null>;
  /** Writes whatever was there. @returns The new revision. */
  put(key: string, value: Uint8Array): Promise<number>;
  /** Writes if the value is still at `expectedRevision`; 0 means there is none. @throws MUSTER_ERR_STATE_CONFLICT */
  update(key: string, value: Uint8Array, expectedRevision: number): Promise<number>;
  /** Removes the value, if any. */
  delete(key: string): Promise<void>;
}
