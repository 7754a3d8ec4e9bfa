/** Weight versions, and what a request accepts of them. Pure. */

/** What a request accepts. All that is given must hold. */
export interface Fence {
  /** This version and no other, compared as text. */
  readonly exact: string | null;
  /** At least this version. */
  readonly min: number | null;
  /** At most so many versions behind the newest one that the router knows. */
  readonly maxStaleness: number | null;
}

/** Tokens `start` to below `end` of a response came from this version: the form that SGLang and vLLM give. */
export interface VersionSpan {
  readonly version: string;
  readonly start: number;
  readonly end: number;
}

/** Accepts every version, also an unknown one. */
export const openFence: Fence = { exact: null, min: null, maxStaleness: null };

/** True when a request asks for anything at all. */
export function isFenced({ exact, min, maxStaleness }: Fence): boolean {
  return exact !== null || min !== null || maxStaleness !== null;
}

/** The number of a version that counts updates; `null` for a label such as `default`, which has no order. */
export function numberOfVersion(version: string | null): number | null {
  return version !== null && /^\d{1,15}$/.test(version) ? Number(version) : null;
}

/** Updates by which a single engine may be ahead of all others and still be believed. */
export const versionLeadMax = 100_000;

/**
 * Whether weights of this version may answer. A version that is unknown satisfies no fence, one without a number none that counts,
 * and neither does one that is further ahead of all others than anybody believes.
 *
 * @param newest - Number of the newest version that the router knows, `null` when it knows none.
 */
export function satisfies(version: string | null, fence: Fence, newest: number | null): boolean {
  if (!isFenced(fence)) return true;
  if (version === null) return false;
  if (fence.exact !== null && version !== fence.exact) return false;
  const number = numberOfVersion(version);
  const isCounted = fence.min !== null || fence.maxStaleness !== null;
  if (isCounted && newest !== null && number !== null && number > newest + versionLeadMax) return false;
  if (fence.min !== null && (number === null || number < fence.min)) return false;
  if (fence.maxStaleness === null) return true;
  return number !== null && newest !== null && number >= newest - fence.maxStaleness;
}

/** The fence as part of a sentence: `weight version at least 12`. */
export function sayFence({ exact, min, maxStaleness }: Fence): string {
  const parts = [
    exact === null ? [] : [`exactly ${exact}`],
    min === null ? [] : [`at least ${min}`],
    maxStaleness === null ? [] : [`at most ${maxStaleness} behind the newest`],
  ].flat();
  return parts.length === 0 ? "any weight version" : `weight version ${parts.join(" and ")}`;
}

/** The spans as a header says them: `12:0-40,13:40-64`. */
export function saySpans(spans: readonly VersionSpan[]): string {
  return spans.map(({ version, start, end }) => `${version}:${start}-${end}`).join(",");
}

/** Adds spans behind others; neighbours of one version become one. */
export function joinSpans(spans: readonly VersionSpan[], more: readonly VersionSpan[]): readonly VersionSpan[] {
  const joined: VersionSpan[] = [...spans];
  for (const span of more) {
    const last = joined.at(-1);
    if (last && last.version === span.version && last.end === span.start)
      joined[joined.length - 1] = { ...last, end: span.end };
    else joined.push(span);
  }
  return joined;
}
