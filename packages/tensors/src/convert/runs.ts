/** Where the elements of a tensor come from: runs of elements that lie one behind the other in tensors of the source. */

/** Elements `start` … `start + elements` of a tensor of the source. */
export interface Run {
  readonly source: string;
  readonly start: number;
  readonly elements: number;
}

/** Puts runs one behind the other; those that go on where another ends become one. Pure. */
export function joinRuns(runs: Iterable<Run>): readonly Run[] {
  const joined: Run[] = [];
  for (const run of runs) {
    const last = joined.at(-1);
    if (run.elements === 0) continue;
    if (last && last.source === run.source && last.start + last.elements === run.start)
      joined[joined.length - 1] = { ...last, elements: last.elements + run.elements };
    else joined.push(run);
  }
  return joined;
}

/** The elements `from` … `from + elements` of what runs hold. Pure. */
export function* cutRuns(runs: readonly Run[], from: number, elements: number): Generator<Run> {
  let begin = 0;
  for (const run of runs) {
    const first = Math.max(begin, from);
    const end = Math.min(begin + run.elements, from + elements);
    if (first < end) yield { ...run, start: run.start + first - begin, elements: end - first };
    begin += run.elements;
    if (begin >= from + elements) return;
  }
}
