/**
 * The transport of one simulated process: the promises of {@link Transport} over a link that delays, loses and cuts. Like the real
 * client it tries again with the same id until its deadline, so an answer that was lost leaves nobody wiser, only later.
 */
import { snapshotIdEnd } from "@muster/actors/internal";
import { MusterError, messageOf } from "@muster/base";
import type {
  ConsumeOptions,
  Delivery,
  Journal,
  JournalEntry,
  PublishAck,
  StateStore,
  StreamName,
  StreamUsage,
  Subscription,
  TailOptions,
  Transport,
  TransportStatus,
} from "@muster/transport";
import type { SimProcess } from "../world/process.ts";
import type { Link } from "./link.ts";
import { kindOfSubject } from "./subject-kind.ts";
import type { HeardMessage, Wire } from "./wire.ts";

/** Default deadline of an operation. */
const timeoutMsDefault = 5_000;

interface Given {
  readonly network: Wire;
  readonly process: SimProcess;
  readonly link: Link;
  /** The broker's end of this connection: where its consumers hang. */
  readonly inner: Transport;
}

interface CallOptions {
  readonly code: "MUSTER_ERR_PUBLISH_UNKNOWN" | "MUSTER_ERR_BROKER_TIMEOUT";
  readonly timeoutMs?: number;
  /** Failpoint after the broker has done it and before the process hears so. */
  readonly donePoint?: string;
}

export class SimTransport implements Transport {
  readonly job: string;
  readonly #given: Given;
  readonly #listeners = new Set<(status: TransportStatus) => void>();
  readonly #pending = new Set<(error: MusterError) => void>();
  #isConnected = true;
  #isClosed = false;

  constructor(given: Given) {
    this.#given = given;
    this.job = given.inner.job;
    given.inner.onStatus((status) => given.process.enter(() => this.#changed(status)));
  }

  publish(
    subject: string,
    data: Uint8Array,
    options: { readonly msgId: string; readonly timeoutMs?: number },
  ): Promise<PublishAck> {
    const { network, process } = this.#given;
    const kind = kindOfSubject(subject);
    const said = data.slice();
    const copy = network.tampering.of(subject, said);
    return this.#call(
      `${process.role}.before-publish.${kind}`,
      async () => {
        const ack = await network.store.publish(subject, copy, { msgId: options.msgId });
        if (ack.duplicate) return ack;
        network.remember(subject, copy);
        network.options.observer.stored({ stream: streamOf(subject), seq: ack.seq, subject, data: said, by: process });
        return ack;
      },
      {
        code: "MUSTER_ERR_PUBLISH_UNKNOWN",
        donePoint: `${process.role}.after-publish.${kind}`,
        ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }),
      },
    );
  }

  send(subject: string, data: Uint8Array): void {
    const { link, network } = this.#given;
    const copy = data.slice();
    if (this.#isClosed || link.suffers("coreLoss")) return;
    link.up(() => network.store.send(subject, copy));
  }

  async subscribe(pattern: string, handle: (subject: string, data: Uint8Array) => void): Promise<Subscription> {
    const { inner, link, process } = this.#given;
    let isOpen = true;
    const subscription = await inner.subscribe(pattern, (subject, data) =>
      link.down(() =>
        process.enter(() => isOpen && !this.#isClosed && this.#try(subject, () => handle(subject, data))),
      ),
    );
    return {
      close: async () => {
        isOpen = false;
        await subscription.close();
      },
    };
  }

  async consume(options: ConsumeOptions): Promise<Subscription> {
    const { inner } = this.#given;
    let isOpen = true;
    const subscription = await inner.consume({
      ...options,
      handle: (delivery) => this.#deliver(delivery, options, () => isOpen && !this.#isClosed),
    });
    return {
      close: async () => {
        isOpen = false;
        await subscription.close();
      },
    };
  }

  fetch(stream: StreamName, seq: number): Promise<Uint8Array> {
    const { network, process } = this.#given;
    return this.#call(`${process.role}.before-fetch`, () => network.store.fetch(stream, seq), {
      code: "MUSTER_ERR_BROKER_TIMEOUT",
    });
  }

  purge(stream: StreamName, beforeSeq: number): Promise<void> {
    const { network, process } = this.#given;
    const what = stream === "journal" ? "purge-journal" : "purge";
    const work = async (): Promise<void> => {
      await network.store.purge(stream, beforeSeq);
      network.options.observer.purged?.({ stream, beforeSeq, by: process });
    };
    return this.#call(`${process.role}.before-${what}`, work, {
      code: "MUSTER_ERR_BROKER_TIMEOUT",
      donePoint: `${process.role}.after-${what}`,
    });
  }

  usage(stream: StreamName): Promise<StreamUsage> {
    return this.#given.inner.usage(stream);
  }

  tail(options: TailOptions): Promise<Subscription> {
    return this.#given.inner.tail(options);
  }

  journal(): Journal {
    const { network, process } = this.#given;
    const { observer, bug } = network.options;
    const journal = network.store.journal();
    const read = this.#read.bind(this);
    return {
      head: () =>
        this.#call(`${process.role}.before-head`, () => journal.head(), { code: "MUSTER_ERR_BROKER_TIMEOUT" }),
      append: (data, expectedSeq, msgId, expectedId) => {
        const isPart = msgId.endsWith(snapshotIdEnd);
        const what = isPart ? "snapshot" : "journal";
        const copy = bug?.writing?.(data, expectedSeq + 1) ?? data.slice();
        const work = async (): Promise<number> => {
          const before = await journal.head();
          if (isPart && bug?.purgesEarly) await this.purge("journal", expectedSeq + 1);
          const seq = await (bug?.ignoresFence
            ? journal.append(copy, before, msgId)
            : journal.append(copy, expectedSeq, msgId, expectedId));
          if (seq > before)
            observer.stored({ stream: "journal", seq, subject: `muster.${this.job}.journal`, data: copy, by: process });
          return seq;
        };
        const stored = this.#call(`${process.role}.before-${what}`, work, {
          code: "MUSTER_ERR_PUBLISH_UNKNOWN",
          donePoint: `${process.role}.after-${what}`,
        });
        if (!bug?.journalsLate) return stored;
        stored.catch(() => {});
        return Promise.resolve(expectedSeq + 1);
      },
      read,
    };
  }

  /** Page by page: what is removed meanwhile is not read any more. */
  async *#read(fromSeq: number): AsyncIterable<JournalEntry> {
    const { network, process } = this.#given;
    const journal = network.store.journal();
    const isShort = network.options.bug?.readsShort ?? false;
    const code = "MUSTER_ERR_BROKER_TIMEOUT";
    let head: number | null = null;
    for (let next = fromSeq; head === null || next <= head; ) {
      const from = next;
      const page = async (): Promise<readonly JournalEntry[]> => {
        head ??= await journal.head();
        return await pageOf(journal, from, head);
      };
      const records = await this.#call(head === null ? `${process.role}.before-replay` : null, page, { code });
      next = (records.at(-1)?.seq ?? Number.MAX_SAFE_INTEGER) + 1;
      yield* isShort && next > (head ?? 0) ? records.slice(0, -1) : records;
    }
  }

  state(): StateStore {
    const state = this.#given.network.store.state();
    const { role } = this.#given.process;
    const call = <T>(what: string, work: () => Promise<T>): Promise<T> =>
      this.#call(`${role}.before-${what}`, work, { code: "MUSTER_ERR_BROKER_TIMEOUT" });
    return {
      get: (key) => call("state-get", () => state.get(key)),
      put: (key, value) => call("state-put", () => state.put(key, value)),
      update: (key, value, expected) => call("state-update", () => state.update(key, value, expected)),
      delete: (key) => call("state-delete", () => state.delete(key)),
    };
  }

  onStatus(listener: (status: TransportStatus) => void): () => void {
    listener({ type: this.#isClosed ? "closed" : this.#isConnected ? "connected" : "disconnected" });
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  isConnected(): boolean {
    return this.#isConnected && !this.#isClosed;
  }

  flush(): Promise<void> {
    return this.#call(`${this.#given.process.role}.before-flush`, async () => {}, {
      code: "MUSTER_ERR_BROKER_TIMEOUT",
    });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { inner, network, link } = this.#given;
    network.forget(link);
    for (const fail of [...this.#pending]) fail(faultOf("MUSTER_ERR_TRANSPORT_CLOSED", "the connection was closed"));
    await inner.close();
  }

  #changed(status: TransportStatus): void {
    const { network, process } = this.#given;
    if (network.options.bug?.hidesOutage && process.role === "controller") return;
    if (status.type === "disconnected") this.#isConnected = false;
    if (status.type === "reconnected") this.#isConnected = true;
    for (const listener of [...this.#listeners]) listener(status);
  }

  /** Asks the broker for something, again and again until it answers or the time is over; `point` is the failpoint before each try. */
  #call<T>(point: string | null, work: () => Promise<T>, options: CallOptions): Promise<T> {
    const { process, link, network } = this.#given;
    const { failpoints } = network.options;
    if (this.#isClosed) return Promise.reject(faultOf("MUSTER_ERR_TRANSPORT_CLOSED", point ?? "reading on"));
    return new Promise((resolve, reject) => {
      let isOver = false;
      const cancels: (() => void)[] = [];
      const end = (settle: () => void): void => {
        if (isOver) return;
        isOver = true;
        for (const cancel of cancels) cancel();
        this.#pending.delete(fail);
        settle();
      };
      const fail = (error: unknown): void => end(() => reject(error as Error));
      const answer = (settle: () => void): void => {
        const action = options.donePoint ? failpoints.hit(process, options.donePoint) : null;
        if (network.isStalled || action?.type === "drop" || link.suffers("answerLoss")) return;
        // The broker has done it and does not know: what it says is what a caller knows after a time-out.
        const doubt = (): void => reject(faultOf(options.code, `injected at ${options.donePoint}`));
        link.down(() => process.enter(() => end(action?.type === "error" ? doubt : settle)), action?.delayMs);
      };
      const attempt = (): void => {
        if (isOver || process.isDead) return;
        if (network.triesAgainMs !== null) cancels.push(process.after(network.triesAgainMs, attempt));
        const action = point === null ? null : failpoints.hit(process, point);
        if (process.isDead || action?.type === "drop") return;
        if (action?.type === "error") {
          fail(faultOf("MUSTER_ERR_BROKER_FAILED", `injected at ${point}`));
          return;
        }
        link.up(() => {
          if (network.isStalled) return;
          work().then(
            (value) => answer(() => resolve(value)),
            (error: unknown) => answer(() => reject(error as Error)),
          );
        }, action?.delayMs);
      };
      this.#pending.add(fail);
      cancels.push(
        process.after(options.timeoutMs ?? timeoutMsDefault, () => fail(faultOf(options.code, point ?? "reading on"))),
      );
      attempt();
    });
  }

  #deliver(delivery: Delivery, options: ConsumeOptions, isOpen: () => boolean): void {
    const { link, process, network } = this.#given;
    const hand = (): void => process.enter(() => this.#hand(delivery, options, isOpen));
    network.whenServing(() => link.down(hand));
    if (link.suffers("duplicates")) link.down(hand, 1 + network.options.world.random(delivery.seq, 5).next() * 3_000);
  }

  /** A process comes to hear a message: it takes it in now, later, when it runs again, or not. */
  #hand(delivery: Delivery, options: ConsumeOptions, isOpen: () => boolean): void {
    const { process, network } = this.#given;
    if (!isOpen()) return;
    const point = `${process.role}.on.${kindOfSubject(delivery.subject)}`;
    const action = network.options.failpoints.hit(process, point);
    if (process.isDead || action?.type === "drop") return;
    const take = (): void => void (isOpen() && this.#take(delivery, options));
    if (action?.delayMs === undefined) process.enter(take);
    else process.after(action.delayMs, take);
  }

  #take(delivery: Delivery, options: ConsumeOptions): void {
    const { process, link, network } = this.#given;
    const { failpoints, observer, bug } = network.options;
    const { subject } = delivery;
    const kind = kindOfSubject(subject);
    const message: HeardMessage = { subject, data: delivery.data, by: process };
    const data = bug?.hearing?.(message) ?? delivery.data;
    let isAnswered = false;
    const answer = (point: string, say: () => void) => (): void => {
      isAnswered = true;
      const held = failpoints.hit(process, `${process.role}.${point}.${kind}`);
      if (process.isDead || held?.type === "drop" || link.suffers("answerLoss")) return;
      link.up(say, held?.delayMs);
    };
    const nak = (delayMs?: number): void => answer("before-nak", () => delivery.nak(delayMs))();
    const isHandled = this.#try(subject, () =>
      options.handle({
        ...delivery,
        data,
        ack: answer("before-ack", () => delivery.ack()),
        nak,
        term: answer("before-term", () => delivery.term()),
      }),
    );
    if (!isHandled) nak();
    else if (!isAnswered) observer.accepted(message);
  }

  /** A handler that fails is reported, as by every transport. @returns False when it failed. */
  #try(subject: string, handle: () => void): boolean {
    try {
      handle();
      return true;
    } catch (cause) {
      const error = faultOf("MUSTER_ERR_DELIVERY_HANDLER_FAILED", `${subject}: ${messageOf(cause)}`);
      for (const listener of [...this.#listeners]) listener({ type: "error", error });
      this.#given.network.options.observer.failed?.(cause);
      return false;
    }
  }
}

/** Records that one answer of the broker holds. */
const pageRecords = 256;

async function pageOf(journal: Journal, fromSeq: number, headSeq: number): Promise<readonly JournalEntry[]> {
  const records: JournalEntry[] = [];
  for await (const record of journal.read(fromSeq)) {
    if (record.seq > headSeq || records.length === pageRecords) break;
    records.push(record);
  }
  return records;
}

/** An error of the transport as its callers know it. */
function faultOf(code: string, reason: string): MusterError {
  const retryable = code !== "MUSTER_ERR_TRANSPORT_CLOSED";
  return new MusterError(code, `${code}: ${reason}`, { retryable, params: { reason } });
}

function streamOf(subject: string): StreamName {
  const place = subject.split(".")[2];
  return place === "reports" || place === "commands" || place === "groups" || place === "journal" ? place : "events";
}
