/**
 * The way out: a bounded store of messages that the broker has not confirmed. One lane per destination, one message of a lane in
 * flight, so a retry can never overtake; the broker knows a message by its id, so a retry is stored once. What cannot be
 * confirmed now is tried again for ever: how long the broker may be away, or a stream full, is a matter of the bound.
 */
import { type Clock, type Logger, type Metrics, MusterError, messageOf, type Random } from "@muster/base";
import { type AnyMessage, encodeMessage, type Kind, messageTable } from "@muster/protocol";
import type { PublishAck, Transport } from "@muster/transport";
import { type Backoff, backoffMs } from "../backoff.ts";
import { errors } from "../errors.ts";
import { Fifo } from "../host/fifo.ts";
import { type BackPressure, watchBackPressure } from "./back-pressure.ts";
import { createOutboxMeters, type OutboxMeters } from "./outbox-meters.ts";

/** What an outbox is made from. */
export interface OutboxOptions {
  readonly transport: Pick<Transport, "publish">;
  readonly clock: Clock;
  /** Draws the jitter of retries. */
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Bound of unconfirmed messages, ≥ 1. */
  readonly outboxMax: number;
  /** Called once when the outbox cannot keep its promise: full, or the broker refuses for good. The owner must end the actor. */
  readonly onFailed: (error: unknown) => void;
  /** Deadline of one try. Default 5 s. */
  readonly publishMs?: number;
  /** Delays between tries. Default 100 ms doubling to 2 s. */
  readonly backoff?: Backoff;
}

/** One message to be stored on a subject. */
export interface OutboxItem {
  readonly subject: string;
  readonly message: AnyMessage;
  /** Messages of one lane keep their order. Default the subject without the message's kind: the destination. */
  readonly lane?: string;
  /** Called when the broker has stored it; `ack.seq` is where. */
  readonly onStored?: (ack: PublishAck) => void;
  /** Called at each try that a full stream refused, also of a message before it in its lane. */
  readonly onHeldBack?: (reason: string) => void;
}

/** The way out of one actor. */
export interface Outbox {
  /**
   * Takes a message; it is encoded now.
   *
   * @returns False when it was not taken: the outbox is closed, or full. When full, public events are shed and counted; any other
   *   message ends the outbox with MUSTER_ERR_OUTBOX_FULL through `onFailed`.
   * @throws MUSTER_ERR_MESSAGE_TOO_LARGE
   */
  offer(item: OutboxItem): boolean;
  /** Unconfirmed messages. */
  depth(): number;
  /** `null` while there is room for one more; else resolves when there is, or when the outbox is closed. */
  room(): Promise<void> | null;
  /** Waits until everything is confirmed. @returns False when that takes longer than `timeoutMs`, or the outbox is closed. */
  flush(timeoutMs: number): Promise<boolean>;
  /** Forgets what is not confirmed; nothing more is sent. */
  close(): void;
}

interface Parcel {
  readonly subject: string;
  readonly kind: Kind;
  readonly data: Uint8Array;
  readonly msgId: string;
  readonly offeredMs: number;
  readonly onStored: ((ack: PublishAck) => void) | undefined;
  readonly onHeldBack: ((reason: string) => void) | undefined;
}

/** Creates an empty outbox. */
export function createOutbox(options: OutboxOptions): Outbox {
  return new LaneOutbox(options);
}

class LaneOutbox implements Outbox {
  readonly #options: OutboxOptions;
  readonly #backoff: Backoff;
  readonly #lanes = new Map<string, Fifo<Parcel>>();
  readonly #meters: OutboxMeters;
  readonly #pressure: BackPressure;
  #depth = 0;
  #closed = false;
  #waiting = new Set<() => void>();
  #wanting = new Set<() => void>();
  #stopPauses = new Set<() => void>();

  constructor(options: OutboxOptions) {
    this.#options = options;
    this.#backoff = options.backoff ?? { firstMs: 100, maxMs: 2_000 };
    this.#meters = createOutboxMeters(options.metrics);
    this.#pressure = watchBackPressure(options.clock, options.logger);
  }

  offer({ subject, message, lane = laneOf(subject, message.kind), onStored, onHeldBack }: OutboxItem): boolean {
    if (this.#closed) return false;
    if (this.#depth >= this.#options.outboxMax) return this.#overflow(message.kind);
    const parcel = {
      subject,
      kind: message.kind,
      data: encodeMessage(message),
      msgId: message.id,
      offeredMs: this.#options.clock.now(),
      onStored,
      onHeldBack,
    };
    this.#count(1);
    const waiting = this.#lanes.get(lane);
    if (waiting) waiting.push(parcel);
    else this.#open(lane, parcel);
    return true;
  }

  depth(): number {
    return this.#depth;
  }

  room(): Promise<void> | null {
    if (this.#closed || this.#depth < this.#options.outboxMax) return null;
    return new Promise((resolve) => this.#wanting.add(resolve));
  }

  async flush(timeoutMs: number): Promise<boolean> {
    if (this.#depth > 0 && !this.#closed) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          cancel();
          this.#waiting.delete(done);
          resolve();
        };
        const cancel = this.#options.clock.after(timeoutMs, done);
        this.#waiting.add(done);
      });
    }
    return this.#depth === 0 && !this.#closed;
  }

  close(): void {
    this.#closed = true;
    this.#lanes.clear();
    for (const stop of [...this.#stopPauses]) stop();
    for (const done of [...this.#waiting]) done();
    this.#giveRoom();
  }

  #giveRoom(): void {
    for (const resolve of this.#wanting) resolve();
    this.#wanting.clear();
  }

  #overflow(kind: Kind): false {
    if (messageTable[kind].direction === "event") this.#meters.shed(kind);
    else this.#fail(errors.OutboxFull({ limit: this.#options.outboxMax, kind }));
    return false;
  }

  #open(lane: string, first: Parcel): void {
    const queue = new Fifo<Parcel>();
    queue.push(first);
    this.#lanes.set(lane, queue);
    void this.#drain(lane, queue).catch((error: unknown) => this.#fail(error));
  }

  async #drain(lane: string, queue: Fifo<Parcel>): Promise<void> {
    for (let parcel = queue.peek(); parcel; parcel = queue.peek()) {
      const ack = await this.#store(lane, parcel);
      if (!ack || this.#closed) return;
      this.#pressure.stored(lane);
      queue.shift();
      if (queue.size === 0) this.#lanes.delete(lane);
      this.#meters.stored(this.#options.clock.now() - parcel.offeredMs);
      this.#depth -= 1;
      // It may offer what follows: until then this is not the last one.
      parcel.onStored?.(ack);
      this.#count(0);
    }
  }

  /** Publishes until confirmed. @returns `null` once closed. @throws What can not heal by itself. */
  async #store(lane: string, { subject, kind, data, msgId }: Parcel): Promise<PublishAck | null> {
    for (let attempt = 1; !this.#closed; attempt++) {
      try {
        return await this.#options.transport.publish(subject, data, {
          msgId,
          timeoutMs: this.#options.publishMs ?? 5_000,
        });
      } catch (error) {
        if (this.#closed) return null;
        if (!(error instanceof MusterError && error.retryable)) throw error;
        this.#meters.retried();
        const full = this.#pressure.refused(lane, error);
        if (full !== null) this.#heldBack(lane, full, error);
        this.#options.logger.debug(
          { subject, kind, msgId, attempt, reason: messageOf(error) },
          "publish will be tried again",
        );
        await this.#pause(backoffMs(this.#backoff, attempt, this.#options.random));
      }
    }
    return null;
  }

  #heldBack(lane: string, stream: string, error: unknown): void {
    this.#meters.heldBack(stream);
    for (const { onHeldBack } of this.#lanes.get(lane)?.items() ?? []) onHeldBack?.(messageOf(error));
  }

  #pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const stop = (): void => {
        cancel();
        this.#stopPauses.delete(stop);
        resolve();
      };
      const cancel = this.#options.clock.after(delayMs, stop);
      this.#stopPauses.add(stop);
    });
  }

  #count(change: number): void {
    this.#depth += change;
    this.#meters.depth(this.#depth);
    if (this.#depth === 0) for (const done of [...this.#waiting]) done();
    if (this.#depth < this.#options.outboxMax) this.#giveRoom();
  }

  #fail(error: unknown): void {
    if (this.#closed) return;
    this.close();
    this.#options.onFailed(error);
  }
}

const laneOf = (subject: string, kind: Kind): string =>
  subject.endsWith(`.${kind}`) ? subject.slice(0, -kind.length - 1) : subject;
