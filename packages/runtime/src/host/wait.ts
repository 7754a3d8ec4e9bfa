/** The wait of a batch for more events: it begins with the first one that may wait, and ends at its deadline or when somebody waits for one of them. */
import type { Clock } from "@muster/base";
import type { Mailbox } from "./mailbox.ts";
import type { Patience } from "./types.ts";

/** Events that wait, at most: each new one is looked at together with those before. */
const waitingMax = 32;

/** The wait of one host. */
export class Wait<Snapshot, Event> {
  readonly #patience: Patience<Snapshot, Event> | undefined;
  readonly #clock: Pick<Clock, "after">;
  readonly #over: () => void;
  #cancel: (() => void) | null = null;
  #isOver = false;
  #lookedAt: Snapshot | null = null;

  /** @param over - Called at the deadline: the batch is taken now. */
  constructor(patience: Patience<Snapshot, Event> | undefined, clock: Pick<Clock, "after">, over: () => void) {
    this.#patience = patience;
    this.#clock = clock;
    this.#over = over;
  }

  /** False while a batch waits and nothing has been stepped since it was looked at. */
  isNews(snapshot: Snapshot): boolean {
    return this.#cancel === null || snapshot !== this.#lookedAt;
  }

  /** Looks at what is in the data lane. @returns True when that waits for more; else the wait is over, and the next one is a new one. */
  waits(mailbox: Pick<Mailbox<Event>, "depth" | "waiting">, snapshot: Snapshot): boolean {
    this.#lookedAt = snapshot;
    if (this.#isOver || !this.#mayWait(mailbox, snapshot)) {
      this.end();
      return false;
    }
    this.#cancel ??= this.#clock.after(this.#patience?.forMs ?? 0, () => {
      this.#cancel = null;
      this.#isOver = true;
      this.#over();
    });
    return true;
  }

  end(): void {
    this.#cancel?.();
    this.#cancel = null;
    this.#isOver = false;
  }

  #mayWait(mailbox: Pick<Mailbox<Event>, "depth" | "waiting">, snapshot: Snapshot): boolean {
    const count = mailbox.depth("data");
    if (!this.#patience || count === 0 || count > waitingMax) return false;
    return this.#patience.mayWait(
      snapshot,
      mailbox.waiting("data").map(({ event }) => event),
    );
  }
}
