/**
 * How what ends is started again: after 0.25, 1, 2, 4 … 60 s, and given up when it ends more than five times in ten minutes (reliability 2 A4). Nodes
 * go by it for replicas of one process, the controller for those of several.
 */

/** Deaths in the window that a replica may have and still start again. */
export const deathsMax = 5;

/** Time in which deaths are counted. */
export const deathWindowMs = 600_000;

/** A process that lived so long was well: being killed after that says nothing about the program. */
export const goodLifeMs = 10_000;

/** Signals by which somebody else ends a process: the kernel and daemons that watch memory, an operator, a terminal. */
const killSignals: readonly (string | null)[] = ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"];

/** True for a signal that a process does not send to itself when it crashes. Pure. */
export function isKillSignal(signal: string | null): boolean {
  return killSignals.includes(signal);
}

/** Pause before the start after the `deaths`-th death. Pure. */
export function restartDelayMs(deaths: number): number {
  return deaths <= 1 ? 250 : Math.min(60_000, 1_000 * 2 ** (deaths - 2));
}
