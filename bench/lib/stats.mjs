/** Medians and spreads of small samples. */

/** @param {readonly number[]} values */
export function medianOf(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 === 1 ? sorted[Math.floor(middle)] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Half of the distance between the quartiles, as a share of the median: how much to trust it. @param {readonly number[]} values */
export function spreadOf(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  return (at(0.75) - at(0.25)) / 2 / medianOf(sorted);
}
