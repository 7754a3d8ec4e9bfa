/** How work is shared out by weights: whole numbers whose sum is exact, and what nobody has finished. */

/** Items from a first one to the one before `to`. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** A range that a rank is to do. */
export interface Share extends Range {
  readonly rank: number;
}

/**
 * Shares a count by weights: each gets the whole part of its quota, and what is left goes to the largest remainders, the first of equals
 * first. No part differs from its quota by 1 or more, and the sum is `count`. Pure.
 */
export function largestRemainder(count: number, weights: readonly number[]): readonly number[] {
  const sum = weights.reduce((total, weight) => total + weight, 0);
  if (sum === 0) return weights.map(() => 0);
  const whole = BigInt(sum);
  // Whole numbers throughout: a rounded product would give one too many or too few.
  const quotas = weights.map((weight) => BigInt(count) * BigInt(weight));
  const parts = quotas.map((quota) => Number(quota / whole));
  const left = count - parts.reduce((total, part) => total + part, 0);
  const byRemainder = quotas
    .map((quota, i) => ({ i, remainder: quota % whole }))
    .sort((a, b) => Number(b.remainder - a.remainder));
  const more = new Set(byRemainder.slice(0, left).map(({ i }) => i));
  return parts.map((part, i) => part + (more.has(i) ? 1 : 0));
}

/** What of `items` is in none of the ranges, in order. Ranges may overlap, be empty, or end beyond the items. Pure. */
export function unfinished(items: number, done: readonly Range[]): readonly Range[] {
  const gaps: Range[] = [];
  let next = 0;
  for (const { from, to } of [...done].filter(({ from, to }) => from < to).sort((a, b) => a.from - b.from)) {
    if (from > next) gaps.push({ from: next, to: Math.min(from, items) });
    next = Math.max(next, to);
    if (next >= items) break;
  }
  if (next < items) gaps.push({ from: next, to: items });
  return gaps;
}

/** How many items ranges have that do not overlap. Pure. */
export function sizeOfRanges(ranges: readonly Range[]): number {
  return ranges.reduce((sum, { from, to }) => sum + to - from, 0);
}

/** Deals ranges out to ranks by weight, in order of rank, so that each has as few pieces as can be. Pure. */
export function shareOut(
  ranges: readonly Range[],
  ranks: readonly { readonly rank: number; readonly weight: number }[],
): readonly Share[] {
  const parts = largestRemainder(
    sizeOfRanges(ranges),
    ranks.map(({ weight }) => weight),
  );
  const shares: Share[] = [];
  let at = 0;
  let dealt = 0;
  for (const [i, { rank }] of ranks.entries()) {
    let wanted = parts[i] as number;
    for (let range = ranges[at]; wanted > 0 && range; range = ranges[at]) {
      const from = range.from + dealt;
      const to = Math.min(range.to, from + wanted);
      shares.push({ rank, from, to });
      wanted -= to - from;
      dealt += to - from;
      if (to === range.to) {
        at += 1;
        dealt = 0;
      }
    }
  }
  return shares;
}
