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
  cancel: () => void;
}

export class MemoryConsumer {
  readonly #stream: MemoryStream;
  readonly #clock: Clock;
  readonly #matches: (subject: string) => boolean;
  readonly #pendingMax: number;
  readonly #ackWaitMs: number;
  readonly #pending = new Map<number, Pending>();
  /** Sequences that may be delivered again. */
  readonly #due = new Set<number>();
  /** Sequences that are still to be delivered for the first time. */
  readonly #next: number[] = [];
  #readers: readonly Reader[] = [];
  #isAwake = false;
  /** It is gone on the broker, and its readers have not noticed yet. */
  #isGone = false;
  /** Lives of the consumer: what a reader answers to an earlier one is for nobody. */
  #life = 0;

  constructor(stream: MemoryStream, clock: Clock, options: ConsumeOptions) {
    this.#stream = stream;
    this.#clock = clock;
    this.#matches = matcherOf(options.filter);
    this.#pendingMax = options.maxPending;
    this.#ackWaitMs = options.ackWaitMs ?? ackWaitDefaultMs;
    const isNew = options.deliver === "new" && stream.rule.retention === "log";
    if (!isNew) for (const { seq, subject } of stream.entries()) if (this.#matches(subject)) this.#next.push(seq);
    stream.onAppend(options.filter, ({ seq }) => {
      this.#next.push(seq);
      this.wake();
    });
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

  /** Forgets messages behind the last that is left of the stream. */
  cut(lastSeq: number): void {
    const left = this.#next.filter((seq) => seq <= lastSeq);
    this.#next.splice(0, this.#next.length, ...left);
    for (const [seq, { cancel }] of this.#pending) {
      if (seq <= lastSeq) continue;
      cancel();
      this.#pending.delete(seq);
      this.#due.delete(seq);
    }
  }

  /**
   * The broker has forgotten the consumer. Its readers notice after `noticeMs` and make it anew, from the first message that they have not done:
   * what they did after that one comes again, too, where it is still there.
   */
  expire(noticeMs: number): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#life += 1;
    for (const { cancel } of this.#pending.values()) cancel();
    this.#due.clear();
    this.#clock.after(noticeMs, () => {
      this.#isGone = false;
      const isQueue = this.#stream.rule.retention === "queue";
      const fromSeq = isQueue ? 0 : Math.min(this.#next[0] ?? Number.POSITIVE_INFINITY, ...this.#pending.keys());
      this.#pending.clear();
      const again = [...this.#stream.entries()].filter(({ seq, subject }) => seq >= fromSeq && this.#matches(subject));
      this.#next.splice(0, this.#next.length, ...again.map(({ seq }) => seq));
      this.wake();
    });
  }

  #deliverAll(): void {
    for (; !this.#isGone; ) {
      const reader = this.#readers.find((candidate) => candidate.isOpen());
      const entry = reader ? (this.#takeDue() ?? this.#takeNext()) : null;
      if (!reader || !entry) return;
      this.#readers = [...this.#readers.filter((other) => other !== reader), reader];
      this.#deliver(reader, entry);
    }
  }

  #takeDue(): Entry | null {
    for (const seq of [...this.#due].sort((a, b) => a - b)) {
      this.#due.delete(seq);
      const entry = this.#stream.get(seq);
      if (entry) return entry;
      this.#pending.delete(seq);
    }
    return null;
  }

  #takeNext(): Entry | null {
    while (this.#pending.size < this.#pendingMax) {
      const seq = this.#next.shift();
      if (seq === undefined) return null;
      const entry = this.#stream.get(seq);
      if (entry) return entry;
    }
    return null;
  }

  #deliver(reader: Reader, entry: Entry): void {
    const { seq, subject, data } = entry;
    const pending = this.#pending.get(seq) ?? { deliveries: 0, cancel: () => {} };
    this.#pending.set(seq, pending);
    pending.deliveries += 1;
    this.#rest(seq, pending, this.#ackWaitMs);
    let isAnswered = false;
    const life = this.#life;
    const answer = (act: () => void) => (): void => {
      if (isAnswered || !reader.isOpen()) return;
      isAnswered = true;
      if (life === this.#life) act();
    };
    const done = answer(() => this.#settle(seq));
    const settle = (): void => (this.#isGone ? this.#forget(seq) : done());
    reader.handle({
      seq,
      subject,
      data,
      redeliveries: pending.deliveries - 1,
      ack: settle,
      term: settle,
      nak: (delayMs = 0) => answer(() => this.#rest(seq, pending, delayMs))(),
    });
  }

  #settle(seq: number): void {
    this.#pending.get(seq)?.cancel();
    this.#pending.delete(seq);
    this.#due.delete(seq);
    if (this.#stream.rule.retention === "queue") this.#stream.remove(seq);
    this.wake();
  }

  /** Its reader knows that this one is done; the broker does not hear of it. */
  #forget(seq: number): void {
    this.#pending.delete(seq);
  }

  /** Makes a message due again after `delayMs`. */
  #rest(seq: number, pending: Pending, delayMs: number): void {
    if (this.#pending.get(seq) !== pending) return;
    pending.cancel();
    this.#due.delete(seq);
    pending.cancel = this.#clock.after(delayMs, () => {
      this.#due.add(seq);
      this.wake();
    });
  }
}
