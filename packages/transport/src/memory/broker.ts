/**
 * A broker inside one process, with the promises of the real one: for tests, the simulator and single-process runs. It has no users
 * and no permissions, forgets everything at exit, and copies bytes in, so senders may reuse their buffers.
 */
import type { Clock } from "@muster/base";
import type { StreamBytes, StreamName } from "../streams.ts";
import type { Transport } from "../transport.ts";
import { MemoryConnection } from "./connection.ts";
import { MemoryHub } from "./hub.ts";
import { MemoryTransport } from "./transport.ts";

/** How to make a broker. */
export interface MemoryBrokerOptions {
  /** Default `job`. */
  readonly job?: string;
  /** Default: the monotonic clock of the process. */
  readonly clock?: Clock;
  /** Bytes that a stream may hold, where it is not what the table of streams says. */
  readonly bytesMax?: StreamBytes;
  /** Bytes of the largest message of a stream, where it is not what brokers take. */
  readonly messageMax?: StreamBytes;
}

/** A broker in memory, already prepared for one job. */
export interface MemoryBroker {
  readonly job: string;
  /** Connects an actor; `name` as for the real broker. */
  connect(name: string): Transport;
  /** Cuts every connection of this name until {@link MemoryBroker.reconnect}. */
  disconnect(name: string): void;
  /** Restores every connection of this name. */
  reconnect(name: string): void;
  /** Loses what a stream, or the state, stored in the last `forMs`, as a broker that ends before it has synced it. @returns How many messages. */
  lose(stream: StreamName | "state", forMs: number): number;
  /** Forgets every durable consumer; their readers notice after `noticeMs` and make them anew. */
  expireConsumers(noticeMs: number): void;
}

/** Makes a broker in memory. */
export function createMemoryBroker(options: MemoryBrokerOptions = {}): MemoryBroker {
  const job = options.job ?? "job";
  const hub = new MemoryHub(job, options.clock ?? processClock, options);
  const connections = new Map<string, MemoryConnection[]>();
  const named = (name: string): readonly MemoryConnection[] => connections.get(name) ?? [];
  return {
    job,
    connect(name) {
      const connection = new MemoryConnection(hub.clock);
      connections.set(name, [...named(name).filter((other) => !other.isClosed), connection]);
      return new MemoryTransport(hub, connection);
    },
    lose: (stream, forMs) => hub.cut(stream, forMs),
    expireConsumers: (noticeMs) => hub.expire(noticeMs),
    disconnect: (name) => {
      for (const connection of named(name)) connection.disconnect();
    },
    reconnect: (name) => {
      for (const connection of named(name)) connection.reconnect();
    },
  };
}

const processClock: Clock = {
  now: () => performance.now(),
  after: (delayMs, run) => {
    const timer = setTimeout(run, delayMs);
    return () => clearTimeout(timer);
  },
};
