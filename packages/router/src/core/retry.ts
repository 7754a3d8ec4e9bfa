/** What follows a failed attempt. Pure, but for what the budget has left. */

/** Why an attempt failed. */
export const failureKinds = [
  "refused",
  "not_asked",
  "reset",
  "timeout",
  "stalled",
  "held",
  "status",
  "busy",
  "error_body",
  "stale",
  "lost",
] as const;

/** One of the {@link failureKinds}. */
export type FailureKind = (typeof failureKinds)[number];

/** Limits of what is tried again. */
export interface RetryPolicy {
  /** Attempts of one request, the first included. */
  readonly attemptsMax: number;
  /** Retries that each request adds to the budget of all. */
  readonly share: number;
  /** Retries that are there at once, and are added anew every ten seconds. */
  readonly reserve: number;
}

/** Retries of all requests together: when all engines fail, retries must not multiply the load. */
export class RetryBudget {
  readonly #policy: RetryPolicy;
  #left: number;
  #filledMs: number;

  constructor(policy: RetryPolicy, nowMs: number) {
    this.#policy = policy;
    this.#left = policy.reserve;
    this.#filledMs = nowMs;
  }

  /** A request came. */
  deposit(): void {
    this.#left = Math.min(this.#left + this.#policy.share, 2 * this.#policy.reserve);
  }

  /** Takes one retry. @returns False when none is left. */
  take(nowMs: number): boolean {
    const { reserve } = this.#policy;
    const added = ((nowMs - this.#filledMs) / 10_000) * reserve;
    this.#filledMs = nowMs;
    this.#left = Math.min(this.#left + added, 2 * reserve);
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}

/** What is known when an attempt has failed. */
export interface FailedAttempt {
  readonly kind: FailureKind;
  /** Attempts so far, this one included. */
  readonly attempts: number;
  readonly attemptsMax: number;
  /** Something of an answer has left for the client. */
  readonly bytesLeft: boolean;
  /** The rest can be had from another engine, by prompt and tokens so far. */
  readonly canContinue: boolean;
  readonly takeFromBudget: () => boolean;
}

/** What to do next. */
export type NextMove = "retry" | "continue" | "give up: attempts" | "give up: budget" | "give up: bytes left";

/** Decides what follows a failed attempt. Bytes that have left are never sent twice. */
export function nextMove(failed: FailedAttempt): NextMove {
  if (failed.kind === "held" || (failed.bytesLeft && !failed.canContinue)) return "give up: bytes left";
  if (failed.attempts >= failed.attemptsMax) return "give up: attempts";
  if (!failed.takeFromBudget()) return "give up: budget";
  return failed.bytesLeft ? "continue" : "retry";
}
