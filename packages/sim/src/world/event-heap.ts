/** A binary heap of events by time, then by order of arrival. Cancelled events are dropped when they come up. */

/** One event. */
export interface HeapEvent {
  readonly atMs: number;
  readonly run: () => void;
}

interface Entry extends HeapEvent {
  readonly order: number;
  cancelled: boolean;
}

const isBefore = (a: Entry, b: Entry): boolean => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);

/** The events that are to come. */
export class EventHeap {
  readonly #entries: Entry[] = [];
  #order = 0;

  /** @returns Cancels the event; harmless when late. */
  push(atMs: number, run: () => void): () => void {
    const entry: Entry = { atMs, run, order: this.#order++, cancelled: false };
    this.#entries.push(entry);
    this.#rise(this.#entries.length - 1);
    return () => {
      entry.cancelled = true;
    };
  }

  /** Takes the first event that was not cancelled. */
  pop(): HeapEvent | null {
    for (;;) {
      const first = this.#entries[0];
      if (!first) return null;
      const last = this.#entries.pop() as Entry;
      if (this.#entries.length > 0) {
        this.#entries[0] = last;
        this.#sink();
      }
      if (!first.cancelled) return first;
    }
  }

  #rise(from: number): void {
    const entries = this.#entries;
    const entry = entries[from] as Entry;
    let at = from;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = entries[above] as Entry;
      if (!isBefore(entry, parent)) break;
      entries[at] = parent;
      at = above;
    }
    entries[at] = entry;
  }

  #sink(): void {
    const entries = this.#entries;
    const entry = entries[0] as Entry;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      if (left >= entries.length) break;
      const right = left + 1;
      const isRight = right < entries.length && isBefore(entries[right] as Entry, entries[left] as Entry);
      const below = isRight ? right : left;
      if (!isBefore(entries[below] as Entry, entry)) break;
      entries[at] = entries[below] as Entry;
      at = below;
    }
    entries[at] = entry;
  }
}
