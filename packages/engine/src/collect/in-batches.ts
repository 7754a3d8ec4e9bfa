/** Pieces of work that are under way at the same time. */
const atOnce = 256;

/** Maps with at most {@link atOnce} in flight; waits for all even when one rejects, then rejects with the first. */
export async function inBatches<T, R>(items: readonly T[], run: (item: T, at: number) => Promise<R>): Promise<R[]> {
  const results: R[] = new Array(items.length);
  const queue = items.entries();
  const worker = async (): Promise<void> => {
    for (const [i, item] of queue) results[i] = await run(item, i);
  };
  const workers = Array.from({ length: Math.min(atOnce, items.length) }, worker);
  const ends = await Promise.allSettled(workers);
  const failed = ends.find((end) => end.status === "rejected");
  if (failed) throw failed.reason;
  return results;
}
