/** Storing one message on JetStream, exactly once per message id. */
import { headers, type MsgHdrs } from "@nats-io/nats-core";
import { errors } from "../errors.ts";
import { streamFull } from "../full.ts";
import { messageBytesMax } from "../streams.ts";
import type { PublishAck } from "../transport.ts";
import type { Link } from "./link.ts";
import { isFull } from "./translate.ts";

/** The header with which a bucket marks a removed key. */
export const operationHeader = "KV-Operation";

/** A message to be stored, and what must be true for it. */
export interface StoreRequest {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly msgId: string;
  /** Store only if this is the last message, of the stream or of the subject. */
  readonly expect?:
    | { readonly lastSequence: number; readonly lastMsgID?: string }
    | { readonly lastSubjectSequence: number };
  /** Marks a key of the state as removed. */
  readonly isRemoval?: boolean;
  readonly timeoutMs?: number;
}

/**
 * Stores a message; a repeated attempt is recognised by its id and gives the sequence of the first. A full stream is said at once,
 * not at the deadline: whoever waits for room wants to know it.
 */
export async function store(link: Link, request: StoreRequest): Promise<PublishAck> {
  const { subject, data, msgId, timeoutMs } = request;
  const what = `publishing to ${subject}`;
  if (data.byteLength > messageBytesMax) throw errors.BrokerRefused({ what, reason: "payload too large", apiCode: 0 });
  const ack = await link.call(
    what,
    async () => {
      const options = { msgID: msgId, ...(request.expect ? { expect: request.expect } : {}) };
      try {
        return await link.js.publish(subject, data, request.isRemoval ? { ...options, headers: removal() } : options);
      } catch (error) {
        throw isFull(error) ? streamFull(subject, error.message, error) : error;
      }
    },
    { expired: errors.PublishUnknown, ...(timeoutMs === undefined ? {} : { timeoutMs }) },
  );
  return { seq: ack.seq, duplicate: ack.duplicate };
}

function removal(): MsgHdrs {
  const marked = headers();
  marked.set(operationHeader, "DEL");
  return marked;
}
