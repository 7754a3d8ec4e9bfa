/** One durable consumer in memory: what was delivered and not settled comes again, the rest follows in order. */
import type { Clock } from "@muster/base";
import { ackWaitDefaultMs } from "../streams.ts";
import type { ConsumeOptions, Delivery } from "../transport.ts";
import type { Entry, MemoryStream } from "./stream.ts";
import { matcherOf } from "./subject.ts";

/** Somebody who reads through the consumer. */
export interface Reader {
  /** False while disconnected: nothing is delivered, and answers are lost. */
  isOpen(): boolean;
  handle(delivery: Delivery): void;
}

interface Pending {
  deliveries: number;
  /** True when it may be delivered again. */
  isDue: boolean;
  cancel: () => void;
}

export class MemoryConsumer {
  readonly #stream: MemoryStream;
  readonly #clock: Clock;
  readonly #matches: (subject: string) => boolean;
  readonly #pendingMax: number;
  readonly #ackWaitMs: number;
  readonly #pending = new Map<number, Pending>();
  #readers: readonly Reader[] = [];
  #nextSeq: number;
  #isAwake = false;

  constructor(stream: MemoryStream, clock: Clock, options: ConsumeOptions) {
    this.#stream = stream;
    this.#clock = clock;
    this.#matches = matcherOf(options.filter);
    this.#pendingMax = options.maxPending;
    this.#ackWaitMs = options.ackWaitMs ?? ackWaitDefaultMs;
    const isNew = options.deliver === "new" && stream.rule.retention === "log";
    this.#nextSeq = isNew ? stream.lastSeq + 1 : 1;
    stream.onAppend(() => this.wake());
  }

  /** Adds a reader. Several share the messages. @returns Removes it. */
  join(reader: Reader): () => void {
    this.#readers = [...this.#readers, reader];
    this.wake();
    return () => {
      this.#readers = this.#readers.filter((other) => other !== reader);
    };
  }

  /** Delivers what can be delivered, after the present task. */
  wake(): void {
    if (this.#isAwake || this.#readers.length === 0) return;
    this.#isAwake = true;
    queueMicrotask(() => {
      this.#isAwake = false;
      this.#deliverAll();
    });
  }

  #deliverAll(): void {
    for (;;) {
      const reader = this.#readers.find((candidate) => candidate.isOpen());
      const entry = reader ? (this.#takeDue() ?? this.#takeNext()) : null;
      if (!reader || !entry) return;
      this.#readers = [...this.#readers.filter((other) => other !== reader), reader];
      this.#deliver(reader, entry);
    }
  }

  #takeDue(): Entry | null {
    const due = [...this.#pending].filter(([, { isDue }]) => isDue).map(([seq]) => seq);
    for (const seq of due.sort((a, b) => a - b)) {
      const entry = this.#stream.get(seq);
      if (entry) return entry;
      this.#pending.delete(seq);
    }
    return null;
  }

  #takeNext(): Entry | null {
    while (this.#pending.size < this.#pendingMax && this.#nextSeq <= this.#stream.lastSeq) {
      const entry = this.#stream.get(this.#nextSeq++);
      if (entry && this.#matches(entry.subject)) return entry;
    }
    return null;
  }

  #deliver(reader: Reader, entry: Entry): void {
    const { seq, subject, data } = entry;
    const pending = this.#pending.get(seq) ?? { deliveries: 0, isDue: false, cancel: () => {} };
    this.#pending.set(seq, pending);
    pending.deliveries += 1;
    this.#rest(seq, pending, this.#ackWaitMs);
    let isAnswered = false;
    const answer = (act: () => void) => (): void => {
      if (isAnswered || !reader.isOpen()) return;
      isAnswered = true;
      act();
    };
    reader.handle({
      seq,
      subject,
      data,
      redeliveries: pending.deliveries - 1,
      ack: answer(() => this.#settle(seq)),
      term: answer(() => this.#settle(seq)),
      nak: (delayMs = 0) => answer(() => this.#rest(seq, pending, delayMs))(),
    });
  }

  #settle(seq: number): void {
    this.#pending.get(seq)?.cancel();
    this.#pending.delete(seq);
    if (this.#stream.rule.retention === "queue") this.#stream.remove(seq);
    this.wake();
  }

  /** Makes a message due again after `delayMs`. */
  #rest(seq: number, pending: Pending, delayMs: number): void {
    if (this.#pending.get(seq) !== pending) return;
    pending.cancel();
    pending.isDue = false;
    pending.cancel = this.#clock.after(delayMs, () => {
      pending.isDue = true;
      this.wake();
    });
  }
}
