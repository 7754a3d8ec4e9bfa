/**
 * The journal as the acting controller writes it: a record per batch of inputs, and every so many records a snapshot, after which what came
 * before it is removed.
 */
import { type Clock, hasCode, type Logger, MusterError } from "@muster/base";
import type { ControllerEvent, Rules } from "@muster/machines/controller";
import { storedBytesMax } from "@muster/protocol";
import type { PersistBatch } from "@muster/runtime";
import type { Transport } from "@muster/transport";
import { decodeRecord, encodePart, encodeRecord, type SnapshotPart } from "./journal-record.ts";
import type { ControllerSnapshot, Replayed } from "./journal-replay.ts";
import { encodeSnapshot, partsOf } from "./journal-snapshot.ts";
import { type MachineEffect, OpenEndKeeper } from "./open-ends.ts";
import type { RecordChain } from "./record-chain.ts";
import type { ToldMark } from "./told-mark.ts";

/** What a journal is written with. */
export interface JournalWriterOptions {
  readonly transport: Pick<Transport, "journal" | "purge">;
  readonly logger: Logger;
  /** Of the controller; every record has an id of its own. */
  readonly incarnation: string;
  readonly term: number;
  /** Of this program; snapshots say by which rules they came to be. */
  readonly rules: Rules;
  /** What was read: the first record comes after it. */
  readonly replayed: Replayed;
  /** Records of inputs from one snapshot to the next. */
  readonly snapshotRecords: number;
  /** Most bytes of a snapshot in one record; default {@link storedBytesMax}. */
  readonly partBytes?: number | undefined;
  readonly clock: Clock;
  /** From the clock to wall time, which must not jump within a term. */
  readonly wallOffsetMs: number;
  /** How far the public facts of its records are told. */
  readonly told: Pick<ToldMark, "upTo">;
  /** Tells the operator of records that are not a controller's. */
  readonly alarm: (detail: string) => void;
}

/** How the ids of the records of a snapshot end, so that whoever looks at the stream tells them from the others. */
export const snapshotIdEnd = ".snapshot";

/**
 * Bytes of records after which a snapshot comes however few they are: a journal holds two such spans at most, which is an eighth of its
 * stream's bound, and a take-over reads no more than that.
 */
const snapshotBytes = 64 * 1024 ** 2;

/** Times that somebody else may come between two records before the writer gives way. */
const passesMax = 64;

type Batch = PersistBatch<ControllerSnapshot, ControllerEvent, MachineEffect>;

/** Writes the journal of one term. */
export class JournalWriter {
  readonly #options: JournalWriterOptions;
  readonly #ends: OpenEndKeeper;
  /** The last record, of whatever kind and whomever. */
  #seq: number;
  /** Its id; empty when it has none. */
  #lastId: string;
  readonly #chain: RecordChain;
  /** Foreign records of which the operator has heard. */
  #told = 0;
  /** Tries in a row between which somebody else wrote. */
  #passes = 0;
  #recordSeq: number;
  #since: Replayed["since"];
  /** Records before it are covered by a whole snapshot and may still be there; `null` when they have been asked away. */
  #coveredSeq: number | null;
  /** The state at the last record of this term. */
  #written: { readonly snapshot: ControllerSnapshot; readonly wallMs: number } | null = null;
  /** Done when nothing is being written. */
  #writing: Promise<void> = Promise.resolve();

  constructor(options: JournalWriterOptions) {
    const { replayed } = options;
    this.#options = options;
    this.#ends = new OpenEndKeeper(replayed);
    this.#seq = replayed.seq;
    this.#lastId = replayed.lastId;
    this.#chain = replayed.chain;
    this.#recordSeq = replayed.seq;
    this.#since = replayed.since;
    const { snapshotSeq, firstSeq } = replayed;
    this.#coveredSeq = snapshotSeq !== null && firstSeq < snapshotSeq ? snapshotSeq : null;
  }

  /** Sequence of the last record of inputs, by which its facts are known. */
  get recordSeq(): number {
    return this.#recordSeq;
  }

  /** Appends a batch, and a snapshot when it is time for one. @throws what the journal's `append` throws */
  write(batch: Omit<Batch, "changed">): Promise<void> {
    const writing = this.#write(batch);
    this.#writing = writing.catch(() => {}); // its caller hears of it
    return writing;
  }

  /**
   * Leaves a snapshot as the last record of a term that ends in order: whoever comes next goes on from it, whatever its rules. What lies before it
   * is left to the next one to remove: of a job that has ended, its journal tells how.
   */
  async end(): Promise<void> {
    await this.#writing;
    if (!this.#written || this.#since.records === 0) return;
    try {
      await this.#snapshot(this.#written.snapshot, this.#written.wallMs);
    } catch (error) {
      this.#options.logger.warn(
        { error },
        "the journal ends without a snapshot: only a program with the same rules goes on",
      );
    }
  }

  async #write({ events, effects, snapshot }: Omit<Batch, "changed">): Promise<void> {
    const { term, clock, wallOffsetMs, snapshotRecords, incarnation } = this.#options;
    const wallMs = wallOffsetMs + clock.now();
    this.#tell();
    const told = this.#options.told.upTo(this.#recordSeq);
    const record = encodeRecord(term, events, wallMs, { ...this.#chain.link(incarnation), told });
    while (!(await this.#append(record, ""))) this.#tell();
    this.#recordSeq = this.#seq;
    this.#ends.recorded({ seq: this.#seq, wallMs, told }, effects);
    this.#written = { snapshot, wallMs };
    this.#since = { records: this.#since.records + 1, bytes: this.#since.bytes + record.byteLength };
    const isDue = this.#since.records >= snapshotRecords || this.#since.bytes >= snapshotBytes;
    if (isDue) await this.#snapshot(snapshot, wallMs);
    this.#purge();
  }

  async #snapshot({ context }: ControllerSnapshot, wallMs: number): Promise<void> {
    const { clock, logger, rules, partBytes = storedBytesMax } = this.#options;
    const startedMs = clock.now();
    const bytes = encodeSnapshot({ ...context, ...this.#ends.get(), rules });
    let firstSeq = this.#seq + 1;
    let parts = partsOf(bytes, firstSeq, partBytes);
    const encodeMs = clock.now() - startedMs;
    // Parts say where they begin: when somebody comes between, they begin anew behind that.
    while (!(await this.#appendParts(parts, wallMs))) {
      this.#tell();
      firstSeq = this.#seq + 1;
      parts = partsOf(bytes, firstSeq, partBytes);
    }
    this.#coveredSeq = firstSeq;
    const { records } = this.#since;
    this.#since = { records: 0, bytes: 0 };
    const sizes = { records, parts: parts.length, bytes: bytes.byteLength, encodeMs: Math.round(encodeMs) };
    logger.info({ seq: firstSeq, ...sizes }, "journal snapshot written");
  }

  async #appendParts(parts: readonly SnapshotPart[], wallMs: number): Promise<boolean> {
    const { term, incarnation } = this.#options;
    for (const part of parts) {
      const record = encodePart(term, part, wallMs, this.#chain.link(incarnation));
      if (!(await this.#append(record, snapshotIdEnd))) return false;
    }
    return true;
  }

  /** @returns False when it was not stored, because somebody who is no controller wrote there; the next try comes behind that. */
  async #append(record: Uint8Array, kind: string): Promise<boolean> {
    const { transport, incarnation, term } = this.#options;
    // no mutant: an id of its own for each place in the journal, whatever its number is
    const id = `${incarnation}.${this.#seq + 1}${kind}`;
    const lastId = this.#lastId === "" ? undefined : this.#lastId;
    try {
      this.#seq = await transport.journal().append(record, this.#seq, id, lastId);
    } catch (error) {
      if (!hasCode(error, "MUSTER_ERR_FENCED") || ++this.#passes > passesMax || !(await this.#pass())) throw error;
      return false;
    }
    this.#passes = 0;
    this.#lastId = id;
    this.#chain.wrote(this.#seq, term, incarnation);
    return true;
  }

  /** Reads what came between. @returns True when none of it is a controller's, which is passed over then. */
  async #pass(): Promise<boolean> {
    const before = this.#seq;
    let isOwn = before === 0;
    for await (const { seq, data, msgId } of this.#options.transport.journal().read(Math.max(1, before))) {
      if (seq === before) {
        // The broker lost the end of the journal, and others have written over it.
        if (msgId !== this.#lastId) return false;
        isOwn = true;
        continue;
      }
      // Only controllers remove records.
      if (!isOwn || seq !== this.#seq + 1 || this.#isOfTerm(seq, data)) return false;
      this.#seq = seq;
      this.#lastId = msgId;
    }
    return this.#seq > before;
  }

  /**
   * True for a record of who may act now. It need not be the next link: a broker that loses the end of the journal lets another one write over it,
   * so that this one sees the middle of that term. Who doubts gives way, and the next one reads all of it.
   */
  #isOfTerm(seq: number, data: Uint8Array): boolean {
    const { term, incarnation } = this.#options;
    try {
      if (this.#chain.take(seq, data)) return true;
      const { by, term: said } = decodeRecord(seq, data);
      return by !== undefined && by !== incarnation && said >= term;
    } catch (error) {
      if (hasCode(error, "MUSTER_ERR_JOURNAL_MALFORMED") && error.params.seq === seq) return false;
      if (error instanceof MusterError) return true;
      throw error;
    }
  }

  /** The operator hears of the first foreign record, the second, the fourth and so on. */
  #tell(): void {
    const { count, first } = this.#chain.foreign;
    const isNews = count > 0 && Math.floor(Math.log2(count)) > Math.floor(Math.log2(this.#told));
    if (!isNews) return;
    this.#told = count;
    const detail = `${count} of the journal's records are no controller's and count for nothing; the first is ${first}`;
    this.#options.logger.error({ count }, detail);
    this.#options.alarm(detail);
  }

  /**
   * Removes what a whole snapshot covers. Nobody waits for it: a snapshot that is stored stays true whoever acts, so this may come late or,
   * with the next snapshot, again.
   */
  #purge(): void {
    const beforeSeq = this.#coveredSeq;
    if (beforeSeq === null) return;
    this.#coveredSeq = null;
    const { transport, logger } = this.#options;
    transport.purge("journal", beforeSeq).catch((error: unknown) => {
      logger.warn({ error, beforeSeq }, "the journal was not purged; it will be with the next snapshot");
    });
  }
}
