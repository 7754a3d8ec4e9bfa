/** What the data plane of this process has done, and the times of its network. */
import { errors } from "./errors.ts";
import { native } from "./native.ts";

/**
 * What can happen in the data plane: holders that broke off are asked once more (`retry`), a holder failed and the next is asked (`fail-over`), an end
 * said or took nothing for too long (`stall`), a caller does not belong here (`refused`), a caller that had proved nothing gave way to another
 * (`put-out`), a host of a mesh is not heard any more (`host-lost`), a delta did not fit and the bytes came whole (`delta-lost`).
 */
export type DataPlaneEventKind = "retry" | "fail-over" | "stall" | "refused" | "put-out" | "host-lost" | "delta-lost";

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

/** Asks the addon what was done. @throws MUSTER_ERR_NATIVE_MISSING when it is not built. */
export function dataPlaneActivity(): DataPlaneActivity {
  return native().activity();
}

/** Hears of what happened: the events, oldest first, and how many more were forgotten because they came too fast. */
export type DataPlaneListener = (events: readonly DataPlaneEvent[], forgotten: number) => void;

/**
 * Tells one listener soon after something happened; `null`: nobody. A process has one, the last who asked. Does not keep the process alive.
 * At most 32 events of a kind are remembered until they are told.
 *
 * @throws MUSTER_ERR_NATIVE_MISSING when the addon is not built.
 */
export function hearDataPlane(listener: DataPlaneListener | null): void {
  const addon = native();
  const tell = (): void => {
    const { events, forgotten } = addon.takeEvents();
    if (events.length > 0) listener?.(events, forgotten);
  };
  addon.hearEvents(listener === null ? null : tell);
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

/**
 * Sets the times of this process. What is under way may go on with those that it began with.
 *
 * @throws MUSTER_ERR_NATIVE_OPTION_INVALID for times that do not go together; then nothing changes.
 */
export function setNetworkTimes(times: NetworkTimes): void {
  const set = native().setNetworkTimes(times);
  if (!set.ok) throw errors.NativeOptionInvalid({ field: "network", value: set.message, fix: "change one of the two" });
}
