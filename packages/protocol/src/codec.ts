/**
 * Bytes ⇄ messages. What people and other programs read and say, public events and commands of operators, is JSON; everything else is one msgpack
 * dialect (plain maps, no shared structures, so that any reader decodes any writer). Every reader takes both. Limits of size and form before decoding,
 * then the schema of the kind. Whatever does not pass is refused with a reason and changes nothing.
 */
import { MusterError, messageOf } from "@muster/base";
import { Packr } from "msgpackr";
import { z } from "zod";
import { type Arrival, envelopeOfBody, idOfArrival } from "./bare-command.ts";
import {
  countSchema,
  type Envelope,
  envelopeSchema,
  payloadBytesMax,
  protocolMinor,
  protocolVersion,
  smallBytesMax,
} from "./envelope.ts";
import { errors } from "./errors.ts";
import { idSchema } from "./ids.ts";
import { flawOfJson, isJson, readJson, writeJson } from "./json.ts";
import { operatorKinds } from "./messages/fleet.ts";
import { type Body, isKind, type Kind, messageTable } from "./messages/index.ts";
import { withoutUnknown } from "./newer.ts";
import { type PiecedKind, piecedBytesMax } from "./pieces.ts";
import { quickCheckOf } from "./quick-check.ts";
import { flawOfPacked, narrowBounds, type PackedBounds, wideBounds } from "./scan.ts";

const packr = new Packr({ useRecords: false, int64AsType: "number", encodeUndefinedAsNil: true, copyBuffers: true });

/** What messages of all versions have. */
const anyVersion = z.looseObject({ v: countSchema, kind: z.string(), job: z.string(), from: z.string() });

/** A decoded and validated message. */
export interface Message<K extends Kind = Kind> extends Omit<Envelope, "kind" | "body"> {
  readonly kind: K;
  readonly body: Body<K>;
}

/** A message of any kind, told apart by `kind`. */
export type AnyMessage = { [K in Kind]: Message<K> }[Kind];

/** A body that may come in pieces, told apart by `kind`. */
export type PiecedBody = { [K in PiecedKind]: Pick<Message<K>, "kind" | "body"> }[PiecedKind];

/** Packs plain data with the project's msgpack dialect. */
export function pack(value: unknown): Uint8Array {
  return packr.pack(value);
}

/** Unpacks bytes of the dialect. @throws MUSTER_ERR_MESSAGE_TOO_LARGE, MUSTER_ERR_MESSAGE_MALFORMED */
export function unpack(data: Uint8Array, limitBytes = payloadBytesMax): unknown {
  if (data.length > limitBytes) throw errors.MessageTooLarge({ bytes: data.length, limitBytes });
  try {
    return packr.unpack(data);
  } catch (error) {
    throw errors.MessageMalformed({ reason: messageOf(error) }, error);
  }
}

const operators: ReadonlySet<string> = new Set(operatorKinds);

/** True for kinds that are written as JSON: public events, and what operators ask. */
function isJsonKind(kind: Kind): boolean {
  return messageTable[kind].direction === "event" || operators.has(kind);
}

/**
 * Encodes a message. The body is not validated here: what leaves is typed, what arrives is checked.
 *
 * @throws MUSTER_ERR_MESSAGE_TOO_LARGE over {@link payloadBytesMax}.
 */
export function encodeMessage<K extends Kind>(message: Message<K>): Uint8Array {
  const data = isJsonKind(message.kind) ? writeJson(message) : packr.pack(message);
  if (data.length > payloadBytesMax) throw errors.MessageTooLarge({ bytes: data.length, limitBytes: payloadBytesMax });
  return data;
}

/** Reads plain data, JSON or packed, within bounds. @throws MUSTER_ERR_MESSAGE_TOO_LARGE, MUSTER_ERR_MESSAGE_MALFORMED */
export function readPlain(data: Uint8Array, bounds: PackedBounds = wideBounds): unknown {
  if (data.length > payloadBytesMax) throw errors.MessageTooLarge({ bytes: data.length, limitBytes: payloadBytesMax });
  const flaw = isJson(data) ? flawOfJson(data, bounds) : flawOfPacked(data, bounds);
  if (flaw !== null) throw errors.MessageMalformed({ reason: flaw });
  return isJson(data) ? readJson(data) : unpack(data);
}

/** What surrounds a message, checked; its body is not. */
export type SealedMessage = Omit<Envelope, "kind"> & { readonly kind: Kind };

/**
 * Decodes a message and validates what surrounds it. What would be dear to decode is refused before that.
 *
 * @param bounds - Default those of the largest messages.
 * @param arrival - Where it came: there an operator's command may be its body alone, as JSON.
 * @throws MUSTER_ERR_MESSAGE_TOO_LARGE, MUSTER_ERR_MESSAGE_MALFORMED, MUSTER_ERR_MESSAGE_OTHER_VERSION or MUSTER_ERR_MESSAGE_UNKNOWN_KIND.
 */
export function decodeSealed(data: Uint8Array, bounds = wideBounds, arrival?: Arrival): SealedMessage {
  const value = readPlain(data, bounds);
  const whole = (arrival && isJson(data) ? envelopeOfBody(value, arrival) : null) ?? value;
  const envelope = check(envelopeSchema, whole, { what: "envelope", minor: minorOf(whole) });
  const { kind } = envelope;
  if (!isKind(kind)) throw errors.MessageUnknownKind({ kind });
  return { ...envelope, kind };
}

/** Refuses a message of a minor version before `least`. @throws MUSTER_ERR_MESSAGE_OLDER_VERSION */
export function checkMinor({ v, minor = 0 }: Pick<Envelope, "v" | "minor">, least: number): void {
  if (minor < least) throw errors.MessageOlderVersion({ found: `${v}.${minor}`, least: `${v}.${least}` });
}

/** Validates the body of a message. @throws MUSTER_ERR_MESSAGE_MALFORMED */
export function unseal(sealed: SealedMessage): AnyMessage {
  const { kind, minor = 0 } = sealed;
  return { ...sealed, body: check(messageTable[kind].body, sealed.body, { what: kind, minor }) } as AnyMessage;
}

/** Decodes and validates a message: {@link decodeSealed}, then {@link unseal}, with their errors. */
export function decodeMessage(data: Uint8Array): AnyMessage {
  return unseal(decodeSealed(data));
}

/**
 * A body that came in pieces, validated.
 *
 * @param minor - Minor version of the message that names the pieces.
 * @throws MUSTER_ERR_MESSAGE_TOO_LARGE, MUSTER_ERR_MESSAGE_MALFORMED
 */
export function readPiecedBody(kind: PiecedKind, data: Uint8Array, minor = 0): PiecedBody {
  const flaw = flawOfPacked(data, wideBounds);
  if (flaw !== null) throw errors.MessageMalformed({ reason: flaw });
  const body = check(messageTable[kind].body, unpack(data, piecedBytesMax), { what: kind, minor });
  return { kind, body } as PiecedBody;
}

/** What of a message says which one it is; each field where it can be read and is what it should be. */
const peekSchema = z.looseObject({
  id: envelopeSchema.shape.id.optional().catch(undefined),
  kind: envelopeSchema.shape.kind.optional().catch(undefined),
  body: z
    .looseObject({ commandId: idSchema.optional().catch(undefined) })
    .optional()
    .catch(undefined),
});

/** What can be read of bytes that were refused. */
export interface Peeked {
  readonly id?: string;
  readonly said?: string;
  readonly commandId?: string;
}

/**
 * Which message bytes are that were refused: id and kind of the message and id of the command, as far as they can be read. Never throws. Of a kind that may
 * be large a large one is not decoded a second time: nobody who says those waits for an answer by its id.
 */
export function peekMessage(data: Uint8Array, arrival?: Arrival): Peeked {
  const place = arrival?.subject.split(".").slice(5).join(".") ?? "";
  if (data.length > smallBytesMax && isKind(place) && "isLarge" in messageTable[place]) return { said: place };
  const made = arrival && isJson(data) ? idOfArrival(arrival) : null;
  try {
    const value = readPlain(data, narrowBounds);
    const bare = arrival && isJson(data) ? envelopeOfBody(value, arrival) : null;
    const { id, kind: said, body } = peekSchema.parse(bare ?? value);
    const commandId = body?.commandId;
    return {
      ...(id === undefined ? {} : { id }),
      ...(said === undefined ? {} : { said }),
      ...(commandId === undefined ? {} : { commandId }),
    };
  } catch (error) {
    if (error instanceof z.ZodError || isMalformed(error)) return made ?? {};
    throw error;
  }
}

/** The minor version that a message says it has; 0 when it says none. */
function minorOf(value: unknown): number {
  const said: unknown = typeof value === "object" && value !== null ? Reflect.get(value, "minor") : null;
  return countSchema.safeParse(said).data ?? 0;
}

/** How much is taken that is not known. */
interface Leniency {
  /** What is checked, for the reason. */
  readonly what: string;
  /** Minor version of the sender: of a newer one than ours, fields that we do not know are left aside. */
  readonly minor: number;
}

/** A schema stops at the first thing that is wrong: of a table where everything is wrong it would write a page about each row. */
const atFirst: z.core.ParseContextInternal<z.core.$ZodIssue> = { abortEarly: true };

function check<S extends z.ZodType>(schema: S, value: unknown, { what, minor }: Leniency): z.infer<S> {
  if (quickCheckOf(schema)(value)) return value as z.infer<S>;
  let result = schema.safeParse(value, atFirst);
  if (!result.success && minor > protocolMinor) result = schema.safeParse(withoutUnknown(schema, value), atFirst);
  if (result.success) return result.data;
  const other = what === "envelope" ? anyVersion.safeParse(value) : null;
  if (other?.success && other.data.v !== protocolVersion)
    throw errors.MessageOtherVersion({ found: other.data.v, known: protocolVersion });
  const issue = result.error.issues[0];
  throw errors.MessageMalformed({ reason: `${what}.${issue?.path.join(".") ?? ""}: ${issue?.message ?? "invalid"}` });
}

/** True for errors that say the sender's bytes were wrong, as opposed to a fault of ours. */
export function isMalformed(error: unknown): error is MusterError {
  return error instanceof MusterError && error.code.startsWith("MUSTER_ERR_MESSAGE_");
}
