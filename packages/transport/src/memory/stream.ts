/** One stream in memory: sequences, message ids, bounds and purges as on the broker. */
import type { Clock } from "@muster/base";
import { errors } from "../errors.ts";
import { streamFull } from "../full.ts";
import {
  brokerStream,
  duplicateWindowMs,
  messageBytesMax,
  type StreamName,
  type StreamRule,
  streamRules,
} from "../streams.ts";
import type { PublishAck, StreamUsage } from "../transport.ts";
import { SubjectIndex } from "./subject.ts";

/** A stored message. */
export interface Entry {
  readonly seq: number;
  readonly subject: string;
  readonly data: Uint8Array;
  readonly msgId: string;
  readonly storedAtMs: number;
}

/** A message to be stored. */
export interface AppendRequest {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly msgId: string;
  /** Store only if this is the last sequence. */
  readonly expectedSeq?: number;
  /** Store only if the last message has this id. */
  readonly expectedId?: string | undefined;
}

/** Bounds of a stream, where they are not what the table of streams says. */
export interface StreamOptions {
  readonly clock: Clock;
  readonly bytesMax?: number | undefined;
  /** Bytes of its largest message. */
  readonly messageMax?: number | undefined;
}

export class MemoryStream {
  readonly name: string;
  readonly rule: StreamRule;
  readonly #bytesMax: number;
  readonly #messageMax: number;
  readonly #clock: Clock;
  /** By sequence; a Map keeps the order in which they were stored. */
  readonly #entries = new Map<number, Entry>();
  readonly #ids = new Map<string, { readonly seq: number; readonly atMs: number }>();
  readonly #readers = new SubjectIndex<(entry: Entry) => void>();
  /** Messages of each subject, where the rule bounds them. */
  readonly #counts = new Map<string, number>();
  #lastSeq = 0;
  #lastId = "";
  #sizeBytes = 0;

  constructor(job: string, name: StreamName, options: StreamOptions) {
    const { clock, bytesMax, messageMax = messageBytesMax } = options;
    this.name = brokerStream(job, name);
    this.rule = streamRules[name];
    this.#bytesMax = bytesMax ?? this.rule.bytesMax;
    this.#messageMax = messageMax;
    this.#clock = clock;
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  get(seq: number): Entry | null {
    return this.#entries.get(seq) ?? null;
  }

  /** @returns `null` when the last message is not the one that is expected. @throws MUSTER_ERR_STREAM_FULL, MUSTER_ERR_JOURNAL_FULL */
  append(request: AppendRequest): PublishAck | null {
    const { subject, msgId, expectedSeq, expectedId } = request;
    const nowMs = this.#clock.now();
    this.#forget(nowMs);
    const known = this.#ids.get(msgId);
    if (known) return { seq: known.seq, duplicate: true };
    if (expectedSeq !== undefined && expectedSeq !== this.#lastSeq) return null;
    if (expectedId !== undefined && expectedId !== this.#lastId) return null;
    this.#makeRoom(subject, request.data.byteLength);
    const entry = { seq: ++this.#lastSeq, subject, data: request.data.slice(), msgId, storedAtMs: nowMs };
    this.#entries.set(entry.seq, entry);
    this.#lastId = msgId;
    this.#sizeBytes += entry.data.byteLength;
    this.#count(subject, 1);
    this.#ids.set(msgId, { seq: entry.seq, atMs: nowMs });
    for (const read of this.#readers.matching(subject)) read(entry);
    return { seq: entry.seq, duplicate: false };
  }

  remove(seq: number): void {
    const entry = this.#entries.get(seq);
    if (!entry) return;
    this.#entries.delete(seq);
    this.#sizeBytes -= entry.data.byteLength;
    this.#count(entry.subject, -1);
  }

  /** Removes what lies before a sequence; where the stream is not that far, it goes on from there, as a broker's does. */
  purge(beforeSeq: number): void {
    this.#lastSeq = Math.max(this.#lastSeq, beforeSeq - 1);
    for (const seq of this.#entries.keys()) {
      if (seq >= beforeSeq) return;
      this.remove(seq);
    }
  }

  /**
   * Forgets what was stored in the last `forMs`, as a broker does that ends before it has synced it: sequences are given again.
   *
   * @returns The last sequence that is left, and how many messages are lost.
   */
  cut(forMs: number): { readonly lastSeq: number; readonly lost: number } {
    const fromMs = this.#clock.now() - forMs;
    const lost = [...this.#entries.values()].filter(({ storedAtMs }) => storedAtMs >= fromMs);
    this.#lastSeq = (lost[0]?.seq ?? this.#lastSeq + 1) - 1;
    for (const { seq } of lost) this.remove(seq);
    if (lost.length > 0) this.#lastId = this.#entries.get(this.#lastSeq)?.msgId ?? "";
    for (const [id, { seq }] of this.#ids) if (seq > this.#lastSeq) this.#ids.delete(id);
    return { lastSeq: this.#lastSeq, lost: lost.length };
  }

  usage(): StreamUsage {
    return { bytes: this.#sizeBytes, bytesMax: this.#bytesMax, lastSeq: this.#lastSeq };
  }

  /** What is stored now, oldest first. */
  entries(): Iterable<Entry> {
    return this.#entries.values();
  }

  /** Calls `read` at each append on a subject of this pattern. @returns Stops the calls. */
  onAppend(pattern: string, read: (entry: Entry) => void): () => void {
    return this.#readers.add(pattern, read);
  }

  #forget(nowMs: number): void {
    for (const [id, { atMs }] of this.#ids) {
      if (nowMs - atMs <= duplicateWindowMs) break;
      this.#ids.delete(id);
    }
    for (const entry of this.#entries.values()) {
      if (nowMs - entry.storedAtMs <= (this.rule.ageMaxMs ?? Number.POSITIVE_INFINITY)) break;
      this.remove(entry.seq);
    }
  }

  #count(subject: string, change: 1 | -1): void {
    if (this.rule.perSubjectMax === undefined) return;
    const count = (this.#counts.get(subject) ?? 0) + change;
    if (count === 0) this.#counts.delete(subject);
    else this.#counts.set(subject, count);
  }

  #makeRoom(subject: string, bytes: number): void {
    const what = `publishing to ${this.name}`;
    if (bytes > this.#messageMax) throw errors.BrokerRefused({ what, reason: "payload too large", apiCode: 0 });
    if ((this.#counts.get(subject) ?? 0) >= (this.rule.perSubjectMax ?? Number.POSITIVE_INFINITY))
      throw streamFull(subject, "maximum messages per subject exceeded");
    if (this.#sizeBytes + bytes <= this.#bytesMax) return;
    if (this.rule.discard === "new") throw streamFull(subject, "maximum bytes exceeded");
    for (const entry of this.#entries.values()) {
      if (this.#sizeBytes + bytes <= this.#bytesMax) return;
      this.remove(entry.seq);
    }
  }
}
