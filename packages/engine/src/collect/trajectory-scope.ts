/**
 * The boundary around one trajectory (semantics 3). Code of others runs inside of it: what that code throws, leaves hanging, or lets
 * fail later in work that nobody waits for, is this trajectory's and no other's.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { type Clock, type Logger, messageOf } from "@muster/base";
import { errors } from "../errors.ts";

/** Which trajectory it is about, and how long one piece of its work may take. */
export interface ScopeOptions {
  /** For messages, e.g. `reward of sample 3 of group 2.7`. */
  readonly what: string;
  /** `null` for no deadline. */
  readonly timeoutMs: number | null;
}

/** The trajectories of one call: one abort for all, one deadline for each. */
export class TrajectoryScopes {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #signal: AbortSignal;
  readonly #open = new Set<Scope>();
  readonly #abort = (): void => {
    for (const scope of this.#open) scope.end(this.#signal.reason);
  };

  constructor(options: { readonly clock: Clock; readonly logger: Logger; readonly signal: AbortSignal }) {
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#signal = options.signal;
    this.#signal.addEventListener("abort", this.#abort, { once: true });
  }

  /**
   * Runs a piece of work of one trajectory. Its signal is aborted as soon as the result is known, so that whatever it still has
   * running ends too.
   *
   * @throws What the work throws; MUSTER_ERR_DEADLINE_EXPIRED; the reason of the whole call's signal.
   */
  run<T>(options: ScopeOptions, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#signal.aborted) return reject(this.#signal.reason);
      const scope = new Scope(options.what, this.#logger, reject);
      const { what, timeoutMs } = options;
      const late = (): void => scope.end(errors.TrajectoryTimeout({ what, timeoutMs: timeoutMs ?? 0 }));
      const cancel = timeoutMs === null ? () => {} : this.#clock.after(timeoutMs, late);
      scope.whenOver = () => {
        cancel();
        this.#open.delete(scope);
      };
      this.#open.add(scope);
      scopes.run(scope, () => {
        Promise.resolve()
          .then(() => work(scope.signal))
          .then(
            (value) => scope.end(null, () => resolve(value)),
            (error: unknown) => scope.end(error),
          );
      });
    });
  }

  /** Stops listening to the signal of the call. */
  close(): void {
    this.#signal.removeEventListener("abort", this.#abort);
  }
}

class Scope {
  whenOver: () => void = () => {};
  readonly #what: string;
  readonly #logger: Logger;
  readonly #reject: (error: unknown) => void;
  readonly #controller = new AbortController();
  #isOver = false;

  constructor(what: string, logger: Logger, reject: (error: unknown) => void) {
    this.#what = what;
    this.#logger = logger;
    this.#reject = reject;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Ends the trajectory's work once: with an error, or with what `settle` does. */
  end(error: unknown, settle: () => void = () => this.#reject(error)): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.whenOver();
    settle();
    this.#controller.abort(error ?? new Error(`${this.#what} is over`));
  }

  /** A fault in work that nobody waits for: it fails the trajectory while it is open, and is only logged afterwards. */
  fault(error: unknown): void {
    const { name, message } = error instanceof Error ? error : { name: "NotAnError", message: messageOf(error) };
    this.#logger.warn(
      { what: this.#what, name, reason: message, late: this.#isOver },
      "work that nobody waits for failed",
    );
    this.end(error);
  }
}

const scopes = new AsyncLocalStorage<Scope>();

/**
 * Gives a fault that nobody caught to the trajectory whose code it came from. To be called where the process hears of unhandled
 * rejections and uncaught exceptions.
 *
 * @returns False when it belongs to no trajectory, so is the process's own.
 */
export function claimTrajectoryFault(error: unknown): boolean {
  const scope = scopes.getStore();
  scope?.fault(error);
  return scope !== undefined;
}
