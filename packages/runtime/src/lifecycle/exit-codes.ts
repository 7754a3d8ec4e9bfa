/** What a process of Muster says with its exit code. */
export const exitCodes = {
  /** The job is done, or the actor was released. */
  ok: 0,
  /** The job failed. */
  failed: 1,
  /** The command was given something it cannot use. */
  badInput: 2,
  /** A broken invariant: a fault of Muster itself. */
  brokenInvariant: 70,
  /** Replaced by another controller, or the broker is away: starting again may help. */
  temporary: 75,
  /** The host is not set up for it. */
  configuration: 78,
  /** Ended at once by a second SIGINT. */
  interrupted: 130,
  /** Ended at once by a second SIGTERM. */
  terminated: 143,
} as const;

/** One of the {@link exitCodes}. */
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];
