/** Spreads of small samples. */
import { medianOf } from "@muster/base";

/** Half of the distance between the quartiles, as a share of the median: how much to trust it. @param {readonly number[]} values */
export function spreadOf(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (/** @type {number} */ share) => sorted[Math.round(share * (sorted.length - 1))] ?? Number.NaN;
  return (at(0.75) - at(0.25)) / 2 / medianOf(sorted);
}
