/** Whom the checkers watch: a process of the simulator, or a life of a real one as its records show it. */

/** What a checker knows of whoever said or did something; compared by identity. */
export interface Observed {
  readonly name: string;
  /** The place that it has in the job, e.g. `policy-1`; the same for its next life. */
  readonly node: string;
  readonly role: string;
  readonly isDead: boolean;
  /** Its main thread is in an endless loop. */
  readonly isStuck?: boolean;
}

/** Someone whose end can be waited for. */
export interface Mortal extends Observed {
  onDeath(run: () => void): void;
}

/** The time that a checker goes by, and what it does later. */
export interface Timeline {
  readonly nowMs: number;
  after(delayMs: number, run: () => void): unknown;
}
