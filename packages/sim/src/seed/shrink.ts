/** Shrinks the faults of a failing run to the few that it needs: delta debugging (Zeller and Hildebrandt, 2002, algorithm ddmin). */
import type { Bug } from "../cluster/bug.ts";
import type { Scenario } from "../cluster/scenario.ts";
import { runAndCompare } from "./run-seed.ts";

/** Runs that shrinking may cost. */
const runsMax = 200;

/**
 * Finds a list of faults from which none can be left out without losing the violation; the phases and limits stay.
 *
 * @param invariant - The violation that counts; another one is another failure.
 * @param makeBug - The deliberate bug that it fails with.
 * @returns The scenario with fewer faults, or the same one when even the first run does not fail.
 */
export async function shrink(scenario: Scenario, invariant: string, makeBug?: () => Bug): Promise<Scenario> {
  let runs = 0;
  const fails = async (faults: Scenario["faults"]): Promise<boolean> => {
    if (runs++ >= runsMax) return false;
    const { violations } = await runAndCompare({ ...scenario, faults }, makeBug);
    return violations.some((violation) => violation.invariant === invariant);
  };
  const faults = await ddmin(scenario.faults, fails);
  return { ...scenario, faults };
}

/** The ddmin algorithm over any list. Exported for its test. */
export async function ddmin<T>(
  items: readonly T[],
  fails: (items: readonly T[]) => Promise<boolean>,
): Promise<readonly T[]> {
  let current = items;
  let parts = 2;
  while (current.length >= 2) {
    const size = Math.ceil(current.length / parts);
    const smaller = await smallerThan(current, size, fails);
    if (smaller) {
      current = smaller;
      parts = Math.max(2, parts - 1);
    } else if (size === 1) return current;
    else parts = Math.min(current.length, parts * 2);
  }
  return current;
}

/** The list without one part of `size` that still fails, or `null`. */
async function smallerThan<T>(
  items: readonly T[],
  size: number,
  fails: (items: readonly T[]) => Promise<boolean>,
): Promise<readonly T[] | null> {
  for (let from = 0; from < items.length; from += size) {
    const rest = [...items.slice(0, from), ...items.slice(from + size)];
    if (rest.length > 0 && (await fails(rest))) return rest;
  }
  return null;
}
