/** The public events of a job, one by one. */
import { messageOf } from "@muster/base";
import { type AnyMessage, decodeMessage, type KindOf, messageTable, subjectsOf } from "@muster/protocol";
import type { Subscription, Transport } from "@muster/transport";

/** A public event. */
export type EventMessage = Extract<AnyMessage, { kind: KindOf<"event"> }>;

/** How to follow events. */
export interface FollowOptions {
  /** First event wanted, by its sequence in the stream: 1 for all that are still stored, `new` for those from now on. */
  readonly fromSeq: number | "new";
  /** Called in order, once for each fact, though a new controller may say it again. */
  readonly take: (event: EventMessage, seq: number) => void;
  /** Called for what can not be read and is passed over, e.g. a kind that a later version added. */
  readonly unreadable?: (seq: number, reason: string) => void;
}

/** Hears public events of some kinds from now on, as far as the connection holds: what passes while it is away is missed. */
export async function hear(
  transport: Pick<Transport, "job" | "subscribe">,
  kinds: readonly EventMessage["kind"][],
  take: (event: EventMessage) => void,
): Promise<Subscription> {
  const handle = (_: string, data: Uint8Array): void => {
    const event = readEvent(data);
    if ("body" in event) take(event);
  };
  const heard: Subscription[] = [];
  for (const kind of kinds) heard.push(await transport.subscribe(subjectsOf(transport.job).event(kind), handle));
  return { close: async () => void (await Promise.all(heard.map((each) => each.close()))) };
}

/** More than a new controller says again: what the outbox of the one before holds (10,000 messages), and what its last records led to. */
const idsRemembered = 65_536;

/** Follows the events until closed, across outages of the broker. */
export async function follow(transport: Pick<Transport, "tail">, options: FollowOptions): Promise<Subscription> {
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
