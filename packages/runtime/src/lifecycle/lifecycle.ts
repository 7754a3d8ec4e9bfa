/** How a process ends: once gracefully when asked, at once when asked again, loudly when something broke. */
import { type Clock, type Logger, messageOf } from "@muster/base";
import { systemClock } from "../clock.ts";
import { type ExitCode, exitCodes } from "./exit-codes.ts";
import { hasTerminal } from "./hang-up.ts";

/** Whoever would answer a child's farewell goes with the supervisor, so an orphan does not wait for long. */
const orphanGraceMs = 1_000;

/** Why a process should end. */
export type StopReason = "SIGTERM" | "SIGINT" | "SIGHUP" | "parent-gone";

/** The part of Node's `process` that the lifecycle touches. */
export interface ProcessPort {
  on(event: string, listener: (...args: readonly unknown[]) => void): unknown;
  off(event: string, listener: (...args: readonly unknown[]) => void): unknown;
  exit(code: number): void;
  readonly stdin: {
    on(event: string, listener: () => void): unknown;
    off(event: string, listener: () => void): unknown;
    resume(): unknown;
    unref?(): unknown;
  };
}

/** What the lifecycle of a process is made from. */
export interface LifecycleOptions {
  /** Ends the work. Called once. The process then exits with the code it resolves to, `ok` when it says nothing. */
  readonly onStop: (reason: StopReason) => Promise<ExitCode | undefined>;
  /** How long {@link LifecycleOptions.onStop} may take before the process ends anyway; an orphan has at most one second. */
  readonly graceMs: number;
  readonly logger: Logger;
  /** Takes a fault that nobody caught when it is not the process's own. @returns False when it is, and the process ends on it. */
  readonly claimFault?: (error: unknown) => boolean;
  /** Hears of the fault on which the process ends. */
  readonly say?: (reason: string) => void;
  /**
   * True for a child of a supervisor that holds its standard input open: SIGINT and SIGHUP are left to the supervisor, who gets them
   * too, and the end of standard input means that the supervisor is gone.
   */
  readonly supervised: boolean;
  /** True for a process on a terminal: SIGHUP, the end of that, ends it. Default whether a standard stream is one. */
  readonly onTerminal?: boolean;
  /** Default the system clock. */
  readonly clock?: Clock;
  /** Default Node's `process`. */
  readonly port?: ProcessPort;
}

/** Installs the handlers of signals, of the parent's end, and of faults that nobody caught. @returns Removes them. */
export function installLifecycle(options: LifecycleOptions): () => void {
  const { logger, supervised, port = process as ProcessPort, onTerminal = hasTerminal() } = options;
  const stop = createStopper(options, port);
  const crash = (what: string) => (error: unknown) => {
    if (options.claimFault?.(error)) return;
    logger.error({ error, what, reason: messageOf(error) }, "process ends on a fault that nobody caught");
    options.say?.(messageOf(error));
    port.exit(exitCodes.brokenInvariant);
  };
  const none = (): void => {};
  const interrupt = supervised ? none : () => stop("SIGINT");
  const handlers: Readonly<Record<string, (...args: readonly unknown[]) => void>> = {
    SIGTERM: () => stop("SIGTERM"),
    SIGINT: interrupt,
    SIGHUP: supervised || !onTerminal ? none : () => stop("SIGHUP"),
    uncaughtException: crash("uncaughtException"),
    unhandledRejection: crash("unhandledRejection"),
  };
  const orphaned = (): void => stop("parent-gone");
  for (const [event, handler] of Object.entries(handlers)) port.on(event, handler);
  if (supervised) {
    for (const event of ["end", "close"]) port.stdin.on(event, orphaned);
    port.stdin.resume();
    port.stdin.unref?.();
  }
  return () => {
    for (const [event, handler] of Object.entries(handlers)) port.off(event, handler);
    for (const event of ["end", "close"]) port.stdin.off(event, orphaned);
  };
}

function createStopper(options: LifecycleOptions, port: ProcessPort) {
  const { onStop, logger, clock = systemClock() } = options;
  let stopping = false;
  let isOrphan = false;
  let cancel = (): void => {};
  const endAtOnce = (reason: StopReason): void =>
    port.exit(reason === "SIGINT" ? exitCodes.interrupted : exitCodes.terminated);

  const endAfter = (reason: StopReason, graceMs: number): void => {
    cancel();
    cancel = clock.after(graceMs, () => {
      logger.warn({ reason, graceMs }, "process did not stop in time");
      endAtOnce(reason);
    });
  };

  return (reason: StopReason): void => {
    const orphaned = reason === "parent-gone" && !isOrphan;
    isOrphan = isOrphan || orphaned;
    if (stopping) {
      // The end of standard input is reported twice, and may follow a supervisor's own SIGTERM; that of a terminal by shell and kernel:
      // only the other signals are impatience. Yet who was asked to leave and then lost its supervisor has an orphan's time and no more.
      if (reason === "SIGHUP") return;
      if (reason !== "parent-gone") endAtOnce(reason);
      else if (orphaned && options.graceMs > orphanGraceMs) endAfter(reason, orphanGraceMs);
      return;
    }
    stopping = true;
    const graceMs = orphaned ? Math.min(options.graceMs, orphanGraceMs) : options.graceMs;
    logger.info({ reason, graceMs }, "process is stopping");
    endAfter(reason, graceMs);
    onStop(reason)
      .then((code) => port.exit(code ?? exitCodes.ok))
      .catch((error: unknown) => {
        logger.error({ error, reason }, "process could not stop cleanly");
        port.exit(exitCodes.brokenInvariant);
      })
      .finally(() => cancel());
  };
}
