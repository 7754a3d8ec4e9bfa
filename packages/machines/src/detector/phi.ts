/**
 * The φ-accrual level of suspicion in its logistic form (Hayashibara et al. 2004; the approximation of Akka and Pekko). Level 8 means:
 * by the gaps seen so far, a pause this long happens once in 10⁸ gaps.
 *
 * @param silentMs - Time since the last beat.
 * @param meanMs - Mean of the gaps, with the acceptable pause on top.
 * @param deviationMs - Their standard deviation, > 0.
 */
export function phiOf(silentMs: number, meanMs: number, deviationMs: number): number {
  const y = (silentMs - meanMs) / deviationMs;
  const e = Math.exp(-y * (1.5976 + 0.070566 * y * y));
  return silentMs > meanMs ? -Math.log10(e / (1 + e)) : -Math.log10(1 - 1 / (1 + e));
}
