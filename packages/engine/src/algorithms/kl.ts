/**
 * Estimators of KL(π ‖ π_ref) by the drawn token (Schulman, http://joschu.net/blog/kl-approx.html), with d = log π − log π_ref. k3 is the one of
 * GRPO (arXiv 2402.03300, equation 4).
 */
import type { Training } from "@muster/protocol";

/** The estimate and its derivative by log π. In a loss, the derivative of k1 has the mean 0: it belongs into a reward. */
export function divergenceOf(
  estimator: Training["klEstimator"],
  d: number,
  exp: (x: number) => number,
): { readonly value: number; readonly slope: number } {
  if (estimator === "k1") return { value: d, slope: 1 };
  if (estimator === "k2") return { value: (d * d) / 2, slope: d };
  const inverse = exp(-d);
  return { value: inverse - 1 + d, slope: 1 - inverse };
}
