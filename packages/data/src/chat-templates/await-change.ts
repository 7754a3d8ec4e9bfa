/** Waits for another thread to change a number in shared memory. */

/**
 * Whether the number changes within a time. A wake-up alone says nothing: a thread that was held up between changing the number and waking its
 * reader wakes whoever waits for the next change.
 *
 * @param before - The number as it was read before.
 * @param ms - Longest wait.
 */
export function awaitChange(cell: Int32Array<SharedArrayBuffer>, before: number, ms: number): boolean {
  const endMs = performance.now() + ms;
  for (let leftMs = ms; leftMs > 0; leftMs = endMs - performance.now()) {
    Atomics.wait(cell, 0, before, leftMs);
    if (Atomics.load(cell, 0) !== before) return true;
  }
  return false;
}
