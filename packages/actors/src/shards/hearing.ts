/** Whether the processes of a replica hear: each answers in time what it is asked, also when it fails. */
import { type Clock, withDeadline } from "@muster/base";
import { errors } from "../errors.ts";

/** As often in a row one of them may not answer: it does not hear, and only another life does. */
const unheardMax = 3;

/** What is asked. */
export interface Question {
  /** For the error. */
  readonly what: string;
  /** By when each of them has answered; what they do ends before. */
  readonly timeoutMs: number;
  /** Gives it up: that says nothing of who hears. */
  readonly signal: AbortSignal;
}

/** What rank 0 asks of all processes of its replica. */
export class Hearing {
  readonly #clock: Clock;
  /** Questions in a row that not everybody answered. */
  #unheard = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Asks it.
   *
   * @param ask - Resolves once all have answered, whatever they say; it rejects when one of them did not, and ends with its signal.
   * @throws MUSTER_ERR_DEADLINE_EXPIRED or what `ask` rejects with, when one of them did not answer; MUSTER_ERR_WORK_STUCK when that is so several times
   *   in a row; the reason of `signal`
   */
  async of<T>({ what, timeoutMs, signal }: Question, ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const asking = (late: AbortSignal): Promise<T> => ask(AbortSignal.any([late, signal]));
    try {
      const answers = await withDeadline(asking, { what, timeoutMs, clock: this.#clock });
      this.#unheard = 0;
      return answers;
    } catch (error) {
      if (signal.aborted) throw error;
      this.#unheard += 1;
      if (this.#unheard < unheardMax) throw error;
      throw errors.WorkStuck({ what, timeoutMs: this.#unheard * timeoutMs }, error);
    }
  }
}
