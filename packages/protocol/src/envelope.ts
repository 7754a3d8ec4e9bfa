import { z } from "zod";
import { idSchema, roles } from "./ids.ts";

/** Whole number from 0 to 2^53 − 1. */
export const countSchema = z.number().int().nonnegative().max(Number.MAX_SAFE_INTEGER);

/** Version of the protocol: processes of two versions do not understand each other. */
export const protocolVersion = 1;

/**
 * Minor version: what this build says may have fields that an earlier one does not know, and those leave them aside. Raised by one with the first field
 * that is added after a release.
 */
export const protocolMinor: number = 0;

/** Oldest minor version that is understood; raised where a field that an older one does not send has become needed. */
export const protocolMinorLeast: number = 0;

/** Limit of a message that carries tokens or weights meta; also the broker's `max_payload`. */
export const payloadBytesMax = 1024 * 1024;

/** Limit of a message to the controller whose kind carries no tokens and no large table. */
export const smallBytesMax = 64 * 1024;

/** Most bytes of what is kept in one record or value: what is said about it has room beside it, in every broker. */
export const storedBytesMax = (payloadBytesMax / 4) * 3;

/**
 * What surrounds every message. Stale input is recognised by `term`, `epoch`, `incarnation` and `seq`, never by time:
 * clocks of different hosts are not compared.
 */
export const envelopeSchema = z.strictObject({
  v: z.literal(protocolVersion),
  /** Minor version of the sender; absent: 0. Readers of an older one leave fields aside that they do not know. */
  minor: countSchema.optional(),
  /** Unique id of this message; a resend keeps it. */
  id: z.string().min(1).max(128),
  kind: z.string().min(1).max(48),
  job: idSchema,
  /** Id of the sender. */
  from: idSchema,
  role: z.enum(roles),
  /** The life of the sender's process that said it. */
  incarnation: idSchema,
  /** The incarnation it is meant for; another life of the same id must drop it. */
  to: idSchema.optional(),
  /** Counter of this incarnation's messages. */
  seq: countSchema,
  /** Term of the controller that the sender knows of. */
  term: countSchema,
  /** Mesh epoch that the sender knows of. */
  epoch: countSchema,
  /** Time the receiver has for it, counted from its arrival; `null` for no limit. */
  deadlineMs: z.number().nonnegative().nullable(),
  /** Wall time of the sender; for people only. */
  sentAtMs: z.number(),
  /** Id of the message that led to this one. */
  cause: z.string().max(128).optional(),
  body: z.unknown(),
});

/** What surrounds every message. */
export type Envelope = z.infer<typeof envelopeSchema>;
