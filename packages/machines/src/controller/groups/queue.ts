/** The queue of a step's groups: as long as the step has groups, and taken from the front nearly always. What is known of one is known of what is left of it. */
import { firstOf, restOf } from "../../table/list.ts";
import type { QueuedGroup } from "../state.ts";

type Queue = readonly QueuedGroup[];

interface Known {
  /** Groups that somebody failed over. */
  readonly suspects: number;
  /** Every index is one more than the one before. */
  readonly isRun: boolean;
}

const known = new WeakMap<Queue, Known>();

/** How many groups of a queue somebody failed over. Pure. */
export function suspectsIn(queue: Queue): number {
  return knownOf(queue).suspects;
}

/** True when a group waits. Pure. */
export function isQueued(queue: Queue, index: number): boolean {
  const [first] = queue;
  if (!first || !knownOf(queue).isRun) return queue.some((waiting) => waiting.index === index);
  return index >= first.index && index < first.index + queue.length;
}

/** The first so many groups that nobody failed over. Pure. */
export function innocentsIn(queue: Queue, count: number): Queue {
  if (suspectsIn(queue) === 0) return firstOf(queue, count);
  return queue.filter(({ attempt }) => attempt === 0).slice(0, count);
}

/** The queue without groups that were taken from it. Pure. */
export function withoutTaken(queue: Queue, taken: Queue): Queue {
  const isFront = taken.every((group, i) => queue[i] === group);
  if (!isFront) return queue.filter((group) => !taken.includes(group));
  const rest = restOf(queue, taken.length);
  const { suspects, isRun } = knownOf(queue);
  // no mutant: what is not kept is counted again
  known.set(rest, { suspects: suspects - taken.filter(({ attempt }) => attempt > 0).length, isRun });
  return rest;
}

function knownOf(queue: Queue): Known {
  const earlier = known.get(queue);
  if (earlier) return earlier;
  const found = {
    suspects: queue.filter(({ attempt }) => attempt > 0).length,
    // no mutant: of a run the answer is found without looking at each, and is the same
    isRun: queue.every(({ index }, i) => index - i === queue[0]?.index),
  };
  // no mutant: what is not kept is counted again
  known.set(queue, found);
  return found;
}
