/** What all connections of a broker in memory share: streams, consumers, state and listeners. */
import type { Clock } from "@muster/base";
import { errors } from "../errors.ts";
import { type StreamBytes, type StreamName, streamNames, streamSubject } from "../streams.ts";
import type { ConsumeOptions } from "../transport.ts";
import { MemoryConsumer } from "./consumer.ts";
import { MemoryStream } from "./stream.ts";
import { matcherOf, SubjectIndex } from "./subject.ts";

type Listener = (subject: string, data: Uint8Array) => void;

/** Bounds of streams, where they are not what the table of streams says. */
export interface HubBounds {
  readonly bytesMax?: StreamBytes | undefined;
  readonly messageMax?: StreamBytes | undefined;
}

export class MemoryHub {
  readonly job: string;
  readonly clock: Clock;
  readonly state = new Map<
    string,
    { readonly value: Uint8Array; readonly revision: number; readonly storedAtMs: number }
  >();
  #revision = 0;
  readonly #streams: ReadonlyMap<StreamName, MemoryStream>;
  readonly #keepers: readonly { readonly stream: MemoryStream; readonly matches: (subject: string) => boolean }[];
  readonly #consumers = new Map<string, MemoryConsumer>();
  readonly #listeners = new SubjectIndex<Listener>();

  constructor(job: string, clock: Clock, { bytesMax = {}, messageMax = {} }: HubBounds = {}) {
    this.job = job;
    this.clock = clock;
    this.#streams = new Map(
      streamNames.map((name) => {
        const options = { clock, bytesMax: bytesMax[name], messageMax: messageMax[name] };
        return [name, new MemoryStream(job, name, options)];
      }),
    );
    this.#keepers = [...this.#streams].map(([name, stream]) => ({
      stream,
      matches: matcherOf(streamSubject(job, name)),
    }));
  }

  nextRevision(): number {
    return ++this.#revision;
  }

  stream(name: StreamName): MemoryStream {
    const stream = this.#streams.get(name);
    if (!stream) throw errors.StreamMissing({ what: `stream ${name}` });
    return stream;
  }

  /** The stream that keeps a subject. @throws MUSTER_ERR_STREAM_MISSING */
  streamOf(subject: string): MemoryStream {
    for (const { stream, matches } of this.#keepers) if (matches(subject)) return stream;
    throw errors.StreamMissing({ what: `publishing to ${subject}` });
  }

  /** The durable consumer of a name, made at its first use. */
  consumer(options: ConsumeOptions): MemoryConsumer {
    const key = `${options.stream}/${options.consumer}`;
    const consumer = this.#consumers.get(key) ?? new MemoryConsumer(this.stream(options.stream), this.clock, options);
    this.#consumers.set(key, consumer);
    return consumer;
  }

  /** The broker loses what a stream stored in the last `forMs`. @returns How many messages. */
  cut(name: StreamName | "state", forMs: number): number {
    if (name === "state") return this.#cutState(forMs);
    const { lastSeq, lost } = this.stream(name).cut(forMs);
    for (const [key, consumer] of this.#consumers) if (key.startsWith(`${name}/`)) consumer.cut(lastSeq);
    return lost;
  }

  /** Of a key the newest value alone is kept, so whoever loses that one has none. */
  #cutState(forMs: number): number {
    const fromMs = this.clock.now() - forMs;
    const lost = [...this.state].filter(([, { storedAtMs }]) => storedAtMs >= fromMs);
    for (const [key] of lost) this.state.delete(key);
    return lost.length;
  }

  /** The broker forgets every durable consumer. */
  expire(noticeMs: number): void {
    for (const consumer of this.#consumers.values()) consumer.expire(noticeMs);
  }

  /** Shows a message to everybody who listens, after the present task. */
  announce(subject: string, data: Uint8Array): void {
    const listeners = this.#listeners.matching(subject);
    if (listeners.length === 0) return;
    const copy = data.slice();
    for (const hear of listeners) queueMicrotask(() => hear(subject, copy));
  }

  listen(pattern: string, hear: Listener): () => void {
    return this.#listeners.add(pattern, hear);
  }
}
