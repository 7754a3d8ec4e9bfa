/** The public events of a job: followed one by one, and waited for after an operator's request. */
import { messageOf } from "@muster/base";
import {
  type AnyMessage,
  type Body,
  type CommandKind,
  createEnveloper,
  decodeMessage,
  encodeMessage,
  messageTable,
  subjectsOf,
} from "@muster/protocol";
import type { Subscription } from "@muster/transport";
import { errors } from "../errors.ts";
import type { EventMessage } from "../run/event-message.ts";
import type { OperatorDoor } from "./open-job.ts";

/**
 * Follows the events from a sequence of their stream, or from now; each fact once, though a new controller may say it again. What
 * can not be read is reported and passed over.
 */
export async function followEvents(
  { transport }: OperatorDoor,
  options: {
    readonly fromSeq: number | "new";
    readonly take: (event: EventMessage, seq: number) => void;
    readonly unreadable?: (seq: number, reason: string) => void;
  },
): Promise<Subscription> {
  const isNew = onceEach();
  return await transport.tail({
    stream: "events",
    fromSeq: options.fromSeq,
    handle: ({ seq, data }) => {
      const event = readEvent(data);
      if (!("body" in event)) options.unreadable?.(seq, event.reason);
      else if (isNew(event.id)) options.take(event, seq);
    },
  });
}

/** True for an id that was not seen lately. */
function onceEach(): (id: string) => boolean {
  const seen = new Set<string>();
  return (id) => {
    if (seen.has(id)) return false;
    seen.add(id);
    const [oldest] = seen;
    if (seen.size > idsRemembered && oldest !== undefined) seen.delete(oldest);
    return true;
  };
}

function readEvent(data: Uint8Array): EventMessage | { readonly reason: string } {
  try {
    const message = decodeMessage(data);
    return messageTable[message.kind].direction === "event"
      ? (message as EventMessage)
      : { reason: `${message.kind} is no event` };
  } catch (error) {
    return { reason: messageOf(error) };
  }
}

/** Name under which commands speak; the incarnation tells one from another. */
const operatorId = "muster";

/** Far more than a new controller says again. */
const idsRemembered = 10_000;

/** Longest delay of a timer. */
const timeoutMaxMs = 2 ** 31 - 1;

/** A request of an operator, and the event that answers it. */
export interface Ask<K extends CommandKind, T> {
  readonly kind: K;
  readonly body: Body<K>;
  /** First event that may answer: 1 for a fact that is final once it is said. */
  readonly fromSeq: 1 | "new";
  /** What an event means for the request; `null` when nothing. */
  readonly answer: (event: EventMessage) => T | null;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Sends a request to the controller and waits for the event that answers it.
 *
 * @returns The answer, or `null` when none came in time; the request is stored all the same, and a later controller will see it.
 * @throws MUSTER_ERR_REQUEST_REFUSED when the controller does not take the message; the reason of `signal` when it is aborted.
 */
export async function ask<K extends CommandKind, T>(door: OperatorDoor, request: Ask<K, T>): Promise<T | null> {
  const timeout = AbortSignal.timeout(Math.max(1, Math.min(request.timeoutMs, timeoutMaxMs)));
  let resolve: (answer: T) => void = () => {};
  let reject: (error: Error) => void = () => {};
  const answered = new Promise<T>((settle, fail) => {
    resolve = settle;
    reject = fail;
  });
  const message = stampedFor(door, request);
  const events = await followEvents(door, {
    fromSeq: request.fromSeq,
    take: (event) => {
      const answer = request.answer(event);
      if (answer !== null) resolve(answer);
      const { kind, body } = event;
      if (kind === "message.refused" && body.id === message.id)
        reject(errors.RequestRefused({ kind: request.kind, reason: body.detail }));
    },
  });
  try {
    await send(door, message);
    return await Promise.race([answered, whenAborted(AbortSignal.any([timeout, request.signal]))]);
  } catch (error) {
    if (timeout.aborted && !request.signal.aborted) return null;
    throw error;
  } finally {
    await events.close();
  }
}

function stampedFor<K extends CommandKind>(
  { job, incarnation }: OperatorDoor,
  { kind, body }: { readonly kind: K; readonly body: Body<K> },
): AnyMessage {
  const enveloper = createEnveloper({ job, id: operatorId, role: "operator", incarnation, wallMs: Date.now });
  return enveloper.stamp(kind, body) as AnyMessage;
}

/** Stores the request where the controller reads the reports of operators. */
async function send({ job, transport }: OperatorDoor, message: AnyMessage): Promise<void> {
  const subject = subjectsOf(job).report("operator", operatorId, message.kind);
  await transport.publish(subject, encodeMessage(message), { msgId: message.id });
}

/** Rejects with the reason of the signal. */
export function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}
