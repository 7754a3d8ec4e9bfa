/** Requests to the controller: stored where it reads the reports of operators, and answered by a public event. */
import {
  type AnyMessage,
  type Body,
  type CommandKind,
  type Enveloper,
  encodeMessage,
  subjectsOf,
} from "@muster/protocol";
import type { Transport } from "@muster/transport";
import { errors } from "./errors.ts";
import { type EventMessage, follow } from "./follow.ts";

/** A request of an operator, and the event that answers it. */
export interface Ask<K extends CommandKind, T> {
  readonly kind: K;
  readonly body: Body<K>;
  /** First event that may answer: 1 for a fact that is final once it is said. */
  readonly fromSeq: 1 | "new";
  /** What an event means for the request; `null` when nothing. */
  readonly answer: (event: EventMessage) => T | null;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** What became of a command. `accepted` only where that was enough. */
export interface CommandEnd {
  readonly outcome: Body<"command.done">["outcome"] | "accepted" | "refused";
  readonly detail: string;
}

/** Longest delay of a timer. */
const timeoutMaxMs = 2 ** 31 - 1;

/**
 * Sends a request and waits for the event that answers it.
 *
 * @returns `null` when it is stored and nobody answered in time: a controller will, once it can.
 */
export async function ask<K extends CommandKind, T>(
  transport: Transport,
  enveloper: Enveloper,
  request: Ask<K, T>,
): Promise<T | null> {
  const timeout = AbortSignal.timeout(Math.max(1, Math.min(request.timeoutMs, timeoutMaxMs)));
  const ended = request.signal ? AbortSignal.any([timeout, request.signal]) : timeout;
  let resolve: (answer: T) => void = () => {};
  let reject: (error: Error) => void = () => {};
  const answered = new Promise<T>((settle, fail) => {
    resolve = settle;
    reject = fail;
  });
  const message = enveloper.stamp(request.kind, request.body) as AnyMessage;
  const events = await follow(transport, {
    fromSeq: request.fromSeq,
    take: (event) => {
      const answer = request.answer(event);
      if (answer !== null) resolve(answer);
      const { kind, body } = event;
      if (kind === "message.refused" && body.id === message.id)
        reject(errors.RequestRefused({ kind: request.kind, reason: body.detail }));
    },
  });
  let isStored = false;
  try {
    const subject = subjectsOf(transport.job).report("operator", message.from, message.kind);
    await transport.publish(subject, encodeMessage(message), { msgId: message.id });
    isStored = true;
    return await Promise.race([answered, whenAborted(ended)]);
  } catch (error) {
    if (isStored && timeout.aborted && !request.signal?.aborted) return null;
    throw error;
  } finally {
    await events.close();
  }
}

/** What an event says of a command; `null` when nothing, or not enough. Pure. */
export function endOfCommand(
  { kind, body }: EventMessage,
  commandId: string,
  isTakenEnough: boolean,
): CommandEnd | null {
  if (!("commandId" in body) || body.commandId !== commandId) return null;
  if (kind === "command.refused") return { outcome: "refused", detail: body.reason };
  if (kind === "command.done") return { outcome: body.outcome, detail: body.detail };
  return kind === "command.accepted" && isTakenEnough ? { outcome: "accepted", detail: body.detail } : null;
}

/** Rejects with the reason of the signal. */
export function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}
