/**
 * Which messages were seen, per sender's incarnation. A message counts as done only once its effects are executed: one that comes
 * again before that must not be acknowledged, or a crash in between would lose it.
 */

/** What is known of a message. */
export type MessageState = "new" | "pending" | "done";

/** Messages of one life of one sender. */
export interface MessageKey {
  readonly from: string;
  readonly incarnation: string;
  readonly seq: number;
}

/** A bounded memory of messages. */
export interface Dedup {
  look(key: MessageKey): MessageState;
  /** Marks a message as taken and not yet done. */
  take(key: MessageKey): MessageClaim;
}

/** A message between being taken and being done. */
export interface MessageClaim {
  /** Its effects are executed. */
  done(): void;
  /** It was not taken after all and may come again. */
  forget(): void;
}

/** Bounds of the memory: what falls out is taken for new again, which machines bear. */
export interface DedupLimits {
  /** Messages remembered per incarnation. */
  readonly messagesMax: number;
  /** Incarnations remembered, the least recently heard forgotten first. */
  readonly sendersMax: number;
}

/** Creates an empty memory. */
export function createDedup({ messagesMax, sendersMax }: DedupLimits): Dedup {
  const senders = new Map<string, Map<number, MessageState>>();

  const windowOf = ({ from, incarnation }: MessageKey): Map<number, MessageState> => {
    const name = `${from}/${incarnation}`;
    const window = senders.get(name) ?? new Map<number, MessageState>();
    senders.delete(name);
    senders.set(name, window);
    dropOldest(senders, sendersMax);
    return window;
  };

  return {
    look: (key) => senders.get(`${key.from}/${key.incarnation}`)?.get(key.seq) ?? "new",
    take(key) {
      const window = windowOf(key);
      window.set(key.seq, "pending");
      dropOldest(window, messagesMax);
      return {
        done: () => {
          if (window.has(key.seq)) window.set(key.seq, "done");
        },
        forget: () => void window.delete(key.seq),
      };
    },
  };
}

function dropOldest<K>(map: Map<K, unknown>, max: number): void {
  if (map.size <= max) return;
  const oldest = map.keys().next();
  if (!oldest.done) map.delete(oldest.value);
}
