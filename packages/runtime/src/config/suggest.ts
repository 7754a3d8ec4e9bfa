/** Finds what somebody probably meant. */

/** The candidate nearest to `word` by edits, or `null` when none is near (more than a third of the word, at least 2 edits). */
export function nearestTo(word: string, candidates: Iterable<string>): string | null {
  let best: string | null = null;
  let bestEdits = Math.max(2, Math.ceil(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const edits = editsBetween(word, candidate);
    if (edits < bestEdits) [best, bestEdits] = [candidate, edits];
  }
  return best;
}

/** Levenshtein distance, one row at a time. */
function editsBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
