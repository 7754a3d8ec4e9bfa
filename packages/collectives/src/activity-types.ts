/** What the data plane tells of itself, and the times that it is told. */

/**
 * What can happen in the data plane: holders that broke off are asked once more (`retry`), a holder failed and the next is asked (`fail-over`), an end
 * said or took nothing for too long (`stall`), a caller does not belong here (`refused`), a caller that had proved nothing gave way to another
 * (`evicted`), a host of a mesh is not heard any more (`host-lost`), a delta did not fit and the bytes came whole (`delta-lost`).
 */
export type DataPlaneEventKind = "retry" | "fail-over" | "stall" | "refused" | "evicted" | "host-lost" | "delta-lost";

/** One thing that happened. */
export interface DataPlaneEvent {
  readonly event: DataPlaneEventKind;
  /** Address of a holder, or a numeric host; empty for another process of this host. */
  readonly peer: string;
  /** Why, for people. */
  readonly text: string;
}

/** Bytes that crossed sockets of the data plane to and from one host. Shared memory crosses none. */
export interface PeerBytes {
  /** Numeric address; `local` for this host, `others` for all beyond the first 64. */
  readonly peer: string;
  readonly sent: number;
  readonly received: number;
}

/** Counters since the process began. */
export interface DataPlaneActivity {
  /** Connections to others. */
  readonly opened: number;
  /** Connections of others. */
  readonly accepted: number;
  readonly events: Readonly<Record<DataPlaneEventKind, number>>;
  readonly peers: readonly PeerBytes[];
}

/** How long the data plane waits for the network; see `[network]` of a job file for what each means. In milliseconds. */
export interface NetworkTimes {
  readonly aliveMs: number;
  readonly answerMs: number;
  readonly connectMs: number;
  readonly starvedMs: number;
  readonly stallMs: number;
  readonly hostSilenceMs: number;
  readonly meshCallMs: number;
  readonly handshakeMs: number;
}
