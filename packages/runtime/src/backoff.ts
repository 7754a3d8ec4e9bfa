import type { Random } from "@muster/base";

/** Shape of a back-off: doubles from `firstMs` up to `maxMs`. */
export interface Backoff {
  readonly firstMs: number;
  readonly maxMs: number;
}

/** Delay before try `attempt` (1 = first retry), drawn from the upper half of the doubled delay so that crowds spread out. */
export function backoffMs({ firstMs, maxMs }: Backoff, attempt: number, random: Random): number {
  const fullMs = Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 30));
  return fullMs * (0.5 + random.next() / 2);
}

/** A delay within ±10 %, for beats that should not fall into step with others. */
export function jitteredMs(ms: number, random: Random): number {
  return ms * (0.9 + random.next() * 0.2);
}
