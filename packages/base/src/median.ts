/** Middle values. */

/** The middle value; of an even number of values the mean of the two in the middle, of none NaN. Pure. */
export function medianOf(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
  const high = sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
  return (low + high) / 2;
}
