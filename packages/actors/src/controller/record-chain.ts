/**
 * Which records of the journal are the controllers'. Each names its writer and the record that it builds on, so they form one chain; what
 * somebody else put between them, with whatever credentials, counts for nothing, for whoever writes and for whoever reads.
 */
import { hasCode, MusterError } from "@muster/base";
import { errors } from "../errors.ts";
import { decodeRecord, type JournalRecord, linkOf, type RecordLink } from "./journal-record.ts";

/** Records that are not the controllers', as a reader found them. */
export interface ForeignRecords {
  readonly count: number;
  /** The first of them, for people: `record 7: why it is none`. */
  readonly first: string;
}

/** The records of the journal, one after the other. */
export class RecordChain {
  #term = 0;
  /** Writer of the last record; `undefined` before the first, and where records do not name theirs. */
  #by: string | undefined;
  /** Sequence of the controllers' last record; `null` when records before are gone, so that it is not known. */
  #last: number | null = 0;
  /** Sequence of the last record, of whomever. */
  #seq = 0;
  /** Records since the controllers' last one that nobody can read, and why. */
  readonly #damaged = new Map<number, string>();
  #foreign: ForeignRecords = { count: 0, first: "" };

  /** Records that count for nothing, so far. */
  get foreign(): ForeignRecords {
    return this.#foreign;
  }

  /** What a record of `by` says of itself that is appended now. */
  link(by: string): RecordLink {
    return { by, after: this.#last ?? this.#seq };
  }

  /** A record of `by` was appended as `seq`. */
  wrote(seq: number, term: number, by: string): void {
    this.#accept(seq, { term, by });
  }

  /**
   * Takes the next record. @returns What it says; `null` when it is not a controller's.
   * @throws MUSTER_ERR_JOURNAL_VERSION, and MUSTER_ERR_JOURNAL_MALFORMED when controllers built on a record that can not be read.
   */
  take(seq: number, data: Uint8Array): JournalRecord | null {
    if (seq !== this.#seq + 1) this.#lose();
    this.#seq = seq;
    const record = this.#decode(seq, data);
    if (!record) return null;
    const flaw = this.#flawOf(record);
    if (flaw !== null) return this.#pass(seq, flaw);
    this.#accept(seq, record);
    return record;
  }

  /** Records are gone: what comes next builds on one of them. */
  #lose(): void {
    this.#last = null;
    this.#by = undefined;
  }

  #accept(seq: number, { term, by }: Pick<JournalRecord, "term" | "by">): void {
    this.#seq = seq;
    this.#last = seq;
    this.#term = term;
    this.#by = by;
    this.#damaged.clear();
  }

  #decode(seq: number, data: Uint8Array): JournalRecord | null {
    try {
      return decodeRecord(seq, data);
    } catch (error) {
      // Of another version of Muster, which goes on from the last record: this one can not.
      if (hasCode(error, "MUSTER_ERR_JOURNAL_VERSION") && this.#isLinked(linkOf(data))) throw error;
      if (!(error instanceof MusterError)) throw error;
      const reason = String(error.params.reason ?? error.message);
      if (this.#damaged.size < damagedMax) this.#damaged.set(seq, reason);
      return this.#pass(seq, `it can not be read (${reason})`);
    }
  }

  /** Why a record is not the next one of the chain; `null` when it is. */
  #flawOf({ term, by, after, events, part }: JournalRecord): string | null {
    const begins = events.some((event) => event.type === "controller.elected" && event.term === term);
    if (by === undefined || after === undefined) {
      // Of before records named their writers: all of a journal, or its beginning.
      const isOld = this.#by === undefined && (this.#last !== 0 || begins || part !== undefined);
      return isOld ? null : "it names no controller";
    }
    if (this.#last === null) return null;
    const isSame = by === this.#by && term === this.#term;
    if (!isSame && !(begins && term > this.#term)) return `${by} does not act in term ${term}`;
    const reason = this.#damaged.get(after);
    if (reason !== undefined) throw errors.JournalMalformed({ seq: after, reason });
    return after === this.#last ? null : `it builds on record ${after}, not on ${this.#last}`;
  }

  #isLinked(link: RecordLink | null): boolean {
    return link ? this.#last === null || link.after === this.#last : this.#by === undefined;
  }

  #pass(seq: number, flaw: string): null {
    const { count, first } = this.#foreign;
    this.#foreign = { count: count + 1, first: first || `record ${seq}: ${flaw}` };
    return null;
  }
}

/** Records that nobody can read of which is known why. */
const damagedMax = 1_024;
