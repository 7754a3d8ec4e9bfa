/**
 * Tells the checkers of what a real broker stores: each message once and in an order in which causes come first, by whoever knows of it
 * first: its sender, by the broker's answer, or a reader, when the answer was lost or its sender is dead.
 */
import { decodeRecord } from "@muster/actors/controller";
import { readPlain } from "@muster/protocol";
import { type Journal, type StreamName, streamNames, type Transport } from "@muster/transport";
import { matcherOf, streamRules } from "@muster/transport/internal";
import type { StoredMessage } from "../net/wire.ts";
import type { SimProcess } from "../world/process.ts";

interface StreamRecord {
  readonly stream: StreamName;
  readonly seq: number;
  readonly subject: string;
  readonly data: Uint8Array;
}

/** What was told of one run. */
export class Telling {
  readonly #job: string;
  readonly #tell: (message: StoredMessage) => void;
  /** The process of an incarnation. */
  readonly #lives: ReadonlyMap<string, SimProcess>;
  readonly #told = new Map<StreamName, Set<number>>(streamNames.map((name) => [name, new Set()]));
  /** The last record of the journal that was told. */
  #record = 0;
  #catchingUp: Promise<void> = Promise.resolve();

  constructor(job: string, lives: ReadonlyMap<string, SimProcess>, tell: (message: StoredMessage) => void) {
    this.#job = job;
    this.#lives = lives;
    this.#tell = tell;
  }

  /** Sequence of the newest message of a stream that was told. */
  lastOf(stream: StreamName): number {
    return Math.max(0, ...(this.#told.get(stream) ?? []));
  }

  /** The broker has lost what a stream held after a sequence: others get their places. */
  lost(stream: StreamName, afterSeq: number): void {
    const told = this.#told.get(stream);
    for (const seq of told ?? []) if (seq > afterSeq) told?.delete(seq);
  }

  /** The connection of a process, which tells of what passes. */
  through(process: SimProcess, inner: Transport): Transport {
    const journal = this.#throughJournal(process, inner.journal());
    return {
      ...inner,
      publish: async (subject, data, options) => {
        const ack = await inner.publish(subject, data, options);
        this.#seen({ stream: this.#streamOf(subject), seq: ack.seq, subject, data }, process);
        return ack;
      },
      consume: (options) =>
        inner.consume({
          ...options,
          handle: (delivery) => {
            this.#seen({ ...delivery, stream: options.stream });
            options.handle(delivery);
          },
        }),
      fetch: async (stream, seq) => {
        const data = await inner.fetch(stream, seq);
        this.#seen({ stream, seq, subject: `muster.${this.#job}.${stream}`, data });
        return data;
      },
      tail: (options) => inner.tail({ ...options, handle: (entry) => process.enter(() => options.handle(entry)) }),
      journal: () => journal,
    };
  }

  #throughJournal(process: SimProcess, inner: Journal): Journal {
    const catchUp = (toSeq: number): Promise<void> => this.#catchUp(inner, toSeq);
    const record = (seq: number, data: Uint8Array): void => this.#recorded(seq, data);
    return {
      head: () => inner.head(),
      append: async (data, expectedSeq, msgId, expectedId) => {
        const seq = await inner.append(data, expectedSeq, msgId, expectedId);
        if (seq === this.#record + 1) this.#recorded(seq, data, process);
        else await catchUp(seq);
        return seq;
      },
      async *read(fromSeq) {
        for await (const entry of inner.read(fromSeq)) {
          await catchUp(entry.seq - 1);
          record(entry.seq, entry.data);
          yield entry;
        }
      },
    };
  }

  /** Tells of the records up to one, which others wrote and did not live to hear of. */
  #catchUp(journal: Journal, toSeq: number): Promise<void> {
    const before = this.#catchingUp;
    const now = async (): Promise<void> => {
      await before.catch(() => {}); // who waits for that one hears of it
      if (toSeq <= this.#record) return;
      for await (const { seq, data } of journal.read(this.#record + 1)) if (seq <= toSeq) this.#recorded(seq, data);
    };
    this.#catchingUp = now();
    return this.#catchingUp;
  }

  #recorded(seq: number, data: Uint8Array, by = this.#lives.get(decodeRecord(seq, data).by ?? "")): void {
    if (seq <= this.#record || !by) return;
    this.#record = seq;
    this.#told.get("journal")?.add(seq);
    this.#tell({ stream: "journal", seq, subject: `muster.${this.#job}.journal`, data, by });
  }

  #seen({ stream, seq, subject, data }: StreamRecord, by = this.#lives.get(incarnationIn(data))): void {
    const told = this.#told.get(stream);
    if (!by || !told || told.has(seq)) return;
    told.add(seq);
    this.#tell({ stream, seq, subject, data, by });
  }

  #streamOf(subject: string): StreamName {
    const found = streamNames.find((name) => matcherOf(`muster.${this.#job}.${streamRules[name].subject}`)(subject));
    return found ?? "events";
  }
}

function incarnationIn(data: Uint8Array): string {
  const { incarnation } = readPlain(data) as { readonly incarnation?: unknown };
  return typeof incarnation === "string" ? incarnation : "";
}
