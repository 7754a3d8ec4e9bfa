/**
 * How well the watcher itself is (Lifeguard, reliability 4.2): who is slow himself must not accuse others of it. A score from 0 (well)
 * to 7; every wait of the detector is multiplied by score + 1.
 */

/** What the watcher saw of itself in the last second. */
export interface SelfObservation {
  /** How late its loop turned. */
  readonly loopLagMs: number;
  /** Round trip to the broker; `null` when there was none. */
  readonly brokerRttMs: number | null;
  /** How late its timer fired. */
  readonly timerLateMs: number;
}

const scoreMax = 7;

/** The score after one more second. Pure. */
export function localHealth(score: number, seen: SelfObservation, intervalMs: number): number {
  const { loopLagMs, brokerRttMs, timerLateMs } = seen;
  const isBad =
    loopLagMs > intervalMs / 2 || timerLateMs > intervalMs || (brokerRttMs !== null && brokerRttMs > intervalMs);
  return Math.max(0, Math.min(scoreMax, score + (isBad ? 1 : -1)));
}
