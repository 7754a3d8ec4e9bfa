/**
 * Snapshots in the journal: what a replay of all records so far would give, written down, so that the records can go. A snapshot may exceed
 * the largest message and takes several records then.
 */
import { createHash } from "node:crypto";
import { messageOf } from "@muster/base";
import type { ControllerContext, Rules } from "@muster/machines/controller";
import { z } from "zod";
import { errors } from "../errors.ts";
import type { SnapshotPart } from "./journal-record.ts";
import type { OpenEnds } from "./open-ends.ts";

/** What a snapshot holds; its term is that of its records. */
export type SnapshotContent = ControllerContext &
  OpenEnds & {
    /** By which rules its writer came to it, and decides on; absent where that was not said. */
    readonly rules?: Rules | undefined;
  };

/**
 * Version of {@link SnapshotContent}. Raise it with every change of the tables of the controller's state: a snapshot of other tables can not
 * be gone on from.
 */
export const snapshotVersion = 3;

/** How rules are written down. */
const rulesSchema = z.looseObject({ digest: z.string(), build: z.string() });

/** Of the state nothing is checked but that it is there: only a controller of this job may write here. */
const contentSchema = z.looseObject({
  v: z.literal(snapshotVersion),
  state: z.looseObject({}),
  phase: z.string(),
  timers: z.array(z.looseObject({ id: z.string() })),
  untold: z.array(z.looseObject({ id: z.string() })),
  incidents: z.looseObject({}),
  rules: rulesSchema.optional(),
});

/** Bytes of a snapshot. JSON, because a field that is absent in the tables must be absent afterwards. Pure. */
export function encodeSnapshot({ state, phase, timers, untold, incidents, rules }: SnapshotContent): Uint8Array {
  return Buffer.from(JSON.stringify({ v: snapshotVersion, rules, state, phase, timers, untold, incidents }));
}

/** Reads a snapshot that begins at record `seq`. @throws MUSTER_ERR_JOURNAL_MALFORMED, MUSTER_ERR_JOURNAL_VERSION */
export function decodeSnapshot(seq: number, bytes: Uint8Array): SnapshotContent {
  const value = parse(seq, bytes);
  const v = z.looseObject({ v: z.number() }).safeParse(value).data?.v ?? snapshotVersion;
  if (v !== snapshotVersion)
    throw errors.JournalVersion({ what: `the snapshot of record ${seq}`, found: v, known: snapshotVersion });
  const parsed = contentSchema.safeParse(value);
  if (!parsed.success) throw errors.JournalMalformed({ seq, reason: parsed.error.issues[0]?.message ?? "invalid" });
  const { state, phase, timers, untold, incidents, rules } = value as SnapshotContent;
  return { state, phase, timers, untold, incidents, ...(rules ? { rules } : {}) };
}

function parse(seq: number, bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    throw errors.JournalMalformed({ seq, reason: messageOf(error) }, error);
  }
}

/** Cuts the bytes of a snapshot into the parts of records that begin at `firstSeq`. Pure. */
export function partsOf(bytes: Uint8Array, firstSeq: number, partBytes: number): readonly SnapshotPart[] {
  const count = Math.max(1, Math.ceil(bytes.byteLength / partBytes));
  const digest = digestOf(bytes);
  return Array.from({ length: count }, (_, index) => {
    const data = bytes.subarray(index * partBytes, (index + 1) * partBytes);
    return { firstSeq, index, count, digest, data };
  });
}

/** Puts parts together as they are read. What is not whole, or is not what its digest says, counts for nothing. */
export class PartCollector {
  #parts: SnapshotPart[] = [];

  /** Takes the part in record `seq`. @returns The bytes of the snapshot that it makes whole, or `null`. */
  take(seq: number, part: SnapshotPart): Uint8Array | null {
    if (part.index === 0) this.#parts = [];
    const isNext = part.index === this.#parts.length && part.firstSeq === (this.#parts[0]?.firstSeq ?? seq);
    if (!isNext) {
      this.#parts = [];
      return null;
    }
    this.#parts.push(part);
    if (this.#parts.length < part.count) return null;
    const bytes = Buffer.concat(this.#parts.map(({ data }) => data));
    this.#parts = [];
    return digestOf(bytes) === part.digest ? bytes : null;
  }
}

function digestOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
