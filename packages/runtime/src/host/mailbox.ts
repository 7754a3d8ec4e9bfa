/**
 * What waits for the machine. Two lanes: control (commands, results of effects, timers) before data. What comes from outside is
 * refused at the bound; what the host itself owes the machine may use as much again.
 */
import { Fifo } from "./fifo.ts";

/** The lane of an event; every control event goes before any data event. */
export type Lane = "control" | "data";

/** One event and what to do once its effects are executed. */
export interface MailboxEntry<Event> {
  readonly event: Event;
  readonly settle: (() => void) | undefined;
  /** Asked when the machine throws over the event. */
  readonly spare?: ((error: unknown) => boolean) | undefined;
}

/** What events weigh, and how much of it is taken at once. */
export interface Weight<Event> {
  readonly of: (event: Event) => number;
  readonly max: number;
}

/** A bounded queue of two lanes. */
export interface Mailbox<Event> {
  /** Takes an event from outside. @returns False at the bound. */
  offer(entry: MailboxEntry<Event>, lane: Lane): boolean;
  /** Takes an event of the host itself. @returns False at twice the bound, which no sane handler reaches. */
  offerOwn(entry: MailboxEntry<Event>, lane: Lane): boolean;
  /** Removes up to `max` entries: control first, each lane in order of arrival; at least one, and no more than weigh `weight.max`. */
  take(max: number, weight?: Weight<Event>): MailboxEntry<Event>[];
  /** The same of one lane alone. */
  takeOf(lane: Lane, max: number, weight?: Weight<Event>): MailboxEntry<Event>[];
  /** What waits in a lane, in order. */
  waiting(lane: Lane): readonly MailboxEntry<Event>[];
  depth(lane: Lane): number;
  size(): number;
  clear(): void;
}

/** Creates a mailbox for `limit` ≥ 1 events. */
export function createMailbox<Event>(limit: number): Mailbox<Event> {
  const lanes = { control: new Fifo<MailboxEntry<Event>>(), data: new Fifo<MailboxEntry<Event>>() };
  const size = (): number => lanes.control.size + lanes.data.size;
  const offerBelow = (bound: number, entry: MailboxEntry<Event>, lane: Lane): boolean => {
    if (size() >= bound) return false;
    lanes[lane].push(entry);
    return true;
  };
  return {
    offer: (entry, lane) => offerBelow(limit, entry, lane),
    offerOwn: (entry, lane) => offerBelow(2 * limit, entry, lane),
    take: (max, weight) => takeFrom(() => (lanes.control.size > 0 ? lanes.control : lanes.data), max, weight),
    takeOf: (lane, max, weight) => takeFrom(() => lanes[lane], max, weight),
    waiting: (lane) => lanes[lane].items(),
    depth: (lane) => lanes[lane].size,
    size,
    clear() {
      lanes.control.clear();
      lanes.data.clear();
    },
  };
}

function takeFrom<Event>(
  next: () => Fifo<MailboxEntry<Event>>,
  max: number,
  weight: Weight<Event> | undefined,
): MailboxEntry<Event>[] {
  const taken: MailboxEntry<Event>[] = [];
  let left = weight?.max ?? 0;
  while (taken.length < max) {
    const lane = next();
    const entry = lane.peek();
    if (!entry) break;
    left -= weight?.of(entry.event) ?? 0;
    if (left < 0 && taken.length > 0) break;
    lane.shift();
    taken.push(entry);
  }
  return taken;
}
