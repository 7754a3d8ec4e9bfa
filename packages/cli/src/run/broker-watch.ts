/**
 * Tells when the broker does not answer, and when it does again: a server that is frozen, or a network that is cut. A server that ended is told by its keeper.
 */
import type { Clock } from "@muster/base";
import type { TransportStatus } from "@muster/transport";
import { duration } from "../report/text.ts";

/** What a watch is made from. */
export interface BrokerWatchOptions {
  readonly clock: Clock;
  /** The connection has been away for two seconds. */
  readonly onSilent: (detail: string) => void;
  readonly note: (line: string) => void;
}

/** A cut that is over sooner is not worth a line. */
const patienceMs = 2_000;

/** Watches one connection by what it says of itself. */
export class BrokerWatch {
  readonly #options: BrokerWatchOptions;
  #sinceMs = 0;
  #isTold = false;
  /** Somebody else has told why it is away. */
  #isExplained = false;
  #stopWaiting = (): void => {};

  constructor(options: BrokerWatchOptions) {
    this.#options = options;
  }

  take({ type }: Pick<TransportStatus, "type">): void {
    if (type === "error") return;
    this.#stopWaiting();
    const { clock, note } = this.#options;
    if (type === "reconnected") this.#isExplained = false;
    if (type === "disconnected" && !this.#isExplained) {
      this.#sinceMs = clock.now();
      this.#stopWaiting = clock.after(patienceMs, () => this.#tell());
    } else if (type === "reconnected" && this.#isTold) {
      this.#isTold = false;
      note(`the broker answers again, after ${duration(clock.now() - this.#sinceMs)}`);
    }
  }

  /** Its end was told already: it is started again. */
  ended(): void {
    this.#isExplained = true;
    this.#stopWaiting();
  }

  #tell(): void {
    this.#isTold = true;
    const detail = "the broker does not answer";
    this.#options.onSilent(detail);
    this.#options.note(`! ${detail}; the job waits for it, and nothing is lost`);
  }
}
