/** The in-memory implementation of {@link Transport}: what one connection does with the shared hub. */
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { handlerRetryMs, isStateKey, messageBytesMax, type StreamName, streamSubject } from "../streams.ts";
import type {
  ConsumeOptions,
  Journal,
  PublishAck,
  StateStore,
  StreamUsage,
  Subscription,
  TailOptions,
  Transport,
  TransportStatus,
} from "../transport.ts";
import type { MemoryConnection } from "./connection.ts";
import type { MemoryHub } from "./hub.ts";
import { followStream } from "./tail.ts";

export class MemoryTransport implements Transport {
  readonly job: string;
  readonly #hub: MemoryHub;
  readonly #connection: MemoryConnection;

  constructor(hub: MemoryHub, connection: MemoryConnection) {
    this.job = hub.job;
    this.#hub = hub;
    this.#connection = connection;
  }

  async publish(
    subject: string,
    data: Uint8Array,
    options: { readonly msgId: string; readonly timeoutMs?: number },
  ): Promise<PublishAck> {
    await this.#connection.ready(`publishing to ${subject}`, options.timeoutMs, errors.PublishUnknown);
    const ack = this.#hub.streamOf(subject).append({ subject, data, msgId: options.msgId });
    if (ack === null) throw errors.BrokerFailed({ what: `publishing to ${subject}`, reason: "no sequence expected" });
    if (!ack.duplicate) this.#hub.announce(subject, data);
    return ack;
  }

  send(subject: string, data: Uint8Array): void {
    if (this.#connection.isConnected) this.#hub.announce(subject, data);
  }

  async subscribe(pattern: string, handle: (subject: string, data: Uint8Array) => void): Promise<Subscription> {
    await this.#connection.ready(`subscribing to ${pattern}`);
    let isClosed = false;
    const hear = (subject: string, data: Uint8Array): void => {
      if (isClosed || !this.#connection.isConnected) return;
      this.#guard(subject, 0, () => handle(subject, data));
    };
    const stop = this.#hub.listen(pattern, hear);
    return {
      close: async () => {
        isClosed = true;
        stop();
      },
    };
  }

  async consume(options: ConsumeOptions): Promise<Subscription> {
    await this.#connection.ready(`consumer ${options.consumer}`);
    const consumer = this.#hub.consumer(options);
    let isClosed = false;
    const leave = consumer.join({
      isOpen: () => !isClosed && this.#connection.isConnected,
      handle: (delivery) => {
        const isHandled = this.#guard(delivery.subject, delivery.seq, () => options.handle(delivery));
        if (!isHandled) delivery.nak(handlerRetryMs);
      },
    });
    const stop = this.#connection.onChange(() => consumer.wake());
    return {
      close: async () => {
        isClosed = true;
        leave();
        stop();
      },
    };
  }

  async fetch(stream: StreamName, seq: number): Promise<Uint8Array> {
    await this.#connection.ready(`reading message ${seq} of ${stream}`);
    const source = this.#hub.stream(stream);
    const entry = source.get(seq);
    if (!entry) throw errors.MessageGone({ stream: source.name, seq });
    return entry.data;
  }

  async purge(stream: StreamName, beforeSeq: number): Promise<void> {
    await this.#connection.ready(`purging ${stream}`);
    this.#hub.stream(stream).purge(beforeSeq);
  }

  async usage(stream: StreamName): Promise<StreamUsage> {
    await this.#connection.ready(`looking at ${stream}`);
    return this.#hub.stream(stream).usage();
  }

  async tail(options: TailOptions): Promise<Subscription> {
    await this.#connection.ready(`reading ${options.stream}`);
    return followStream(this.#hub.stream(options.stream), this.#connection, {
      fromSeq: options.fromSeq,
      show: (entry) => this.#guard(entry.subject, entry.seq, () => options.handle(entry)),
    });
  }

  journal(): Journal {
    const hub = this.#hub;
    const connection = this.#connection;
    const stream = hub.stream("journal");
    return {
      async head() {
        await connection.ready("reading the head of the journal");
        return stream.lastSeq;
      },
      async append(data, expectedSeq, msgId, expectedId) {
        await connection.ready("appending to the journal", undefined, errors.PublishUnknown);
        const subject = streamSubject(hub.job, "journal");
        const ack = stream.append({ subject, data, msgId, expectedSeq, expectedId });
        const last = stream.lastSeq;
        if (ack === null && last < expectedSeq) throw errors.JournalCut({ last, acknowledged: expectedSeq });
        if (ack === null) throw errors.Fenced({ seq: Math.min(last, expectedSeq + 1) });
        return ack.seq;
      },
      async *read(fromSeq) {
        await connection.ready("reading the journal");
        const last = stream.lastSeq;
        for (let seq = Math.max(1, fromSeq); seq <= last; seq++) {
          const entry = stream.get(seq);
          if (entry) yield { seq, data: entry.data, msgId: entry.msgId };
        }
      },
    };
  }

  state(): StateStore {
    const hub = this.#hub;
    const ready = async (key: string): Promise<void> => {
      if (!isStateKey(key)) throw errors.StateKeyInvalid({ key: key.slice(0, 64) });
      await this.#connection.ready(`state ${key}`);
    };
    const write = (key: string, value: Uint8Array): number => {
      const what = `publishing to key ${key}`;
      if (value.byteLength > messageBytesMax)
        throw errors.BrokerRefused({ what, reason: "payload too large", apiCode: 0 });
      const revision = hub.nextRevision();
      hub.state.set(key, { value: value.slice(), revision, storedAtMs: hub.clock.now() });
      return revision;
    };
    return {
      async get(key) {
        await ready(key);
        return hub.state.get(key) ?? null;
      },
      async put(key, value) {
        await ready(key);
        return write(key, value);
      },
      async update(key, value, expectedRevision) {
        await ready(key);
        const revision = hub.state.get(key)?.revision ?? 0;
        if (revision !== expectedRevision) throw errors.StateConflict({ key, expectedRevision });
        return write(key, value);
      },
      async delete(key) {
        await ready(key);
        hub.state.delete(key);
      },
    };
  }

  onStatus(listener: (status: TransportStatus) => void): () => void {
    return this.#connection.onStatus(listener);
  }

  isConnected(): boolean {
    return this.#connection.isConnected;
  }

  async flush(): Promise<void> {
    await this.#connection.ready("flushing");
  }

  async close(): Promise<void> {
    this.#connection.close();
  }

  /** @returns False when the handler failed; the fault is reported. */
  #guard(subject: string, seq: number, run: () => void): boolean {
    try {
      run();
      return true;
    } catch (error) {
      this.#connection.report(errors.DeliveryHandlerFailed({ subject, seq, reason: messageOf(error) }, error));
      return false;
    }
  }
}
