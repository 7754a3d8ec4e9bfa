/** The records of the journal: the inputs of one batch, or one part of a snapshot. */
import { messageOf } from "@muster/base";
import type { ControllerEvent } from "@muster/machines/controller";
import { pack, unpack } from "@muster/protocol";
import { z } from "zod";
import { errors } from "../errors.ts";

/** One part of a snapshot. It is whole with its last part, and only when the parts follow each other without a gap. */
export interface SnapshotPart {
  /** Sequence of the first part's record. */
  readonly firstSeq: number;
  /** Place of this part, from 0. */
  readonly index: number;
  readonly count: number;
  /** SHA-256 of all parts together, in hexadecimal. */
  readonly digest: string;
  readonly data: Uint8Array;
}

/** By whom a record is, and on which one it builds: what tells it from a record of somebody who is no controller. */
export interface RecordLink {
  /** Incarnation of the controller that wrote it. */
  readonly by: string;
  /** Sequence of the controllers' record before it; 0 when it is their first. */
  readonly after: number;
}

/** What the writer of a record says beside its inputs. */
export interface RecordHead extends Partial<RecordLink> {
  /** Public facts of all records up to this one are told. */
  readonly told?: number;
}

/** What a record says. */
export interface JournalRecord extends RecordHead {
  readonly term: number;
  /** Wall time at which it was written; only what is shown depends on it. */
  readonly wallMs?: number;
  /** Inputs of the controller's machine; none in a part of a snapshot. */
  readonly events: readonly ControllerEvent[];
  readonly part?: SnapshotPart;
}

/** Inputs were validated when they were accepted, and only a controller of this job may write here. */
const eventSchema = z.custom<ControllerEvent>(
  (value) => typeof value === "object" && value !== null && "type" in value && typeof value.type === "string",
);

const writing = {
  term: z.number().int().nonnegative(),
  wallMs: z.number().nonnegative().optional(),
  by: z.string().min(1).max(128).optional(),
  after: z.number().int().nonnegative().optional(),
};

const eventsSchema = z.strictObject({
  v: z.literal(1),
  ...writing,
  told: z.number().int().nonnegative().optional(),
  events: z.array(eventSchema),
});

const partSchema = z.strictObject({
  v: z.literal(2),
  ...writing,
  part: z.strictObject({
    firstSeq: z.number().int().positive(),
    index: z.number().int().nonnegative(),
    count: z.number().int().positive(),
    digest: z.string().regex(/^[0-9a-f]{64}$/),
    data: z.instanceof(Uint8Array),
  }),
});

const versions = [1, 2];

const versionSchema = z.looseObject({ v: z.number() });

/** Bytes of a record of inputs; `wallMs` is when it is written. */
export function encodeRecord(
  term: number,
  events: readonly ControllerEvent[],
  wallMs?: number,
  head?: RecordHead,
): Uint8Array {
  return pack({ v: 1, term, ...(wallMs === undefined ? {} : { wallMs }), ...head, events });
}

/** Bytes of a record that holds a part of a snapshot. */
export function encodePart(term: number, part: SnapshotPart, wallMs?: number, link?: RecordLink): Uint8Array {
  return pack({ v: 2, term, ...(wallMs === undefined ? {} : { wallMs }), ...link, part });
}

/** Reads one record. @throws MUSTER_ERR_JOURNAL_MALFORMED, MUSTER_ERR_JOURNAL_VERSION */
export function decodeRecord(seq: number, data: Uint8Array): JournalRecord {
  const value = unpackRecord(seq, data);
  const v = versionSchema.safeParse(value).data?.v;
  if (v !== undefined && !versions.includes(v))
    throw errors.JournalVersion({ what: `record ${seq}`, found: v, known: "1 and 2" });
  const parsed = v === 2 ? partSchema.safeParse(value) : eventsSchema.safeParse(value);
  if (!parsed.success) throw errors.JournalMalformed({ seq, reason: parsed.error.issues[0]?.message ?? "invalid" });
  const { v: _, term, wallMs, by, after, ...content } = parsed.data;
  const said = "part" in content ? { events: [], part: content.part } : inputsOf(content);
  const link = { ...(by === undefined ? {} : { by }), ...(after === undefined ? {} : { after }) };
  return { term, ...said, ...link, ...(wallMs === undefined ? {} : { wallMs }) };
}

function inputsOf({
  events,
  told,
}: Pick<z.infer<typeof eventsSchema>, "events" | "told">): Pick<JournalRecord, "events" | "told"> {
  return { events, ...(told === undefined ? {} : { told }) };
}

const linkSchema = z.looseObject({ by: z.string(), after: z.number() });

/** What a record of any version says of its place among the controllers' records; `null` when it says nothing of it. */
export function linkOf(data: Uint8Array): RecordLink | null {
  try {
    const { by, after } = linkSchema.parse(unpack(data));
    return { by, after };
  } catch {
    return null;
  }
}

function unpackRecord(seq: number, data: Uint8Array): unknown {
  try {
    return unpack(data);
  } catch (error) {
    throw errors.JournalMalformed({ seq, reason: messageOf(error) }, error);
  }
}
