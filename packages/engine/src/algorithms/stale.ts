/**
 * Importance weights of tokens that other weights drew than those that the step begins with (the decoupled objective, arXiv 2505.24298,
 * equation 5): w = π_old / π_drawn, where π_old are the weights at the beginning of the step. No gradient goes through them.
 */
import type { Training } from "@muster/protocol";

/**
 * The weight of one ratio. `truncate`: min(w, cap), as V-trace does (arXiv 1802.01561, section 4.1). `mask`: w within 1 / cap … cap, and 0
 * outside, as IcePop does (arXiv 2510.18855).
 */
export function staleWeight(
  ratio: number,
  { staleCorrection, staleCap }: Pick<Training, "staleCorrection" | "staleCap">,
): number {
  if (staleCorrection === "off") return 1;
  if (staleCorrection === "truncate") return Math.min(ratio, staleCap);
  return ratio > staleCap || ratio < 1 / staleCap ? 0 : ratio;
}
