/**
 * The wait of a batch for more events: it begins with the first one that may wait, and ends at its deadline, when somebody waits for one of them, or when
 * something comes in the control lane that must not pass them.
 */
import type { Clock } from "@muster/base";
import type { Lane, Mailbox } from "./mailbox.ts";
import type { Patience } from "./types.ts";

/** Events that wait, at most: each new one is looked at together with those before. */
const waitingMax = 32;

type Look<Event> = Pick<Mailbox<Event>, "depth" | "waiting">;

/** The wait of one host. */
export class Wait<Snapshot, Event> {
  readonly #patience: Patience<Snapshot, Event> | undefined;
  readonly #clock: Pick<Clock, "after">;
  readonly #over: () => void;
  #cancel: (() => void) | null = null;
  #isOver = false;
  #lookedAt: Snapshot | null = null;
  #depth = 0;

  /** @param over - Called at the deadline: the batch is taken now. */
  constructor(patience: Patience<Snapshot, Event> | undefined, clock: Pick<Clock, "after">, over: () => void) {
    this.#patience = patience;
    this.#clock = clock;
    this.#over = over;
  }

  /** False while a batch waits, nothing has come since it was looked at, and nothing has been stepped. */
  isNews(mailbox: Pick<Mailbox<Event>, "depth">, snapshot: Snapshot): boolean {
    return this.#cancel === null || snapshot !== this.#lookedAt || mailbox.depth("data") !== this.#depth;
  }

  /**
   * Looks at what is there.
   *
   * @returns The lane that is next: `control` while what is in the data lane waits for more, `data` when that came before something that must not pass
   *   it, else `null`, for the usual order. But for the first the wait is over, and the next one is a new one.
   */
  next(mailbox: Look<Event>, snapshot: Snapshot): Lane | null {
    this.#lookedAt = snapshot;
    this.#depth = mailbox.depth("data");
    const isOvertaken = (this.#cancel !== null || this.#isOver) && !this.#mayPass(mailbox, snapshot);
    if (isOvertaken || this.#isOver || !this.#mayWait(mailbox, snapshot)) {
      this.end();
      return isOvertaken ? "data" : null;
    }
    this.#cancel ??= this.#clock.after(this.#patience?.forMs ?? 0, () => {
      this.#cancel = null;
      this.#isOver = true;
      this.#over();
    });
    return "control";
  }

  end(): void {
    this.#cancel?.();
    this.#cancel = null;
    this.#isOver = false;
  }

  #mayPass(mailbox: Look<Event>, snapshot: Snapshot): boolean {
    const { mayPass } = this.#patience ?? {};
    if (!mayPass || mailbox.depth("control") === 0) return true;
    return mailbox.waiting("control").every(({ event }) => mayPass(snapshot, event));
  }

  #mayWait(mailbox: Look<Event>, snapshot: Snapshot): boolean {
    const count = mailbox.depth("data");
    if (!this.#patience || count === 0 || count > waitingMax) return false;
    return this.#patience.mayWait(
      snapshot,
      mailbox.waiting("data").map(({ event }) => event),
    );
  }
}
