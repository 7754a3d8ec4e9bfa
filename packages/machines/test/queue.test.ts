/** The queue of a step's groups: what is taken from it, wherever it stands, and what is known of the rest. */
import { describe, expect, it } from "vitest";
import { innocentsIn, isQueued, suspectsIn, withoutTaken } from "../src/controller/groups/queue.ts";

const group = (index: number, attempt = 0) => ({ index, attempt });

describe("a queue of groups", () => {
  it("counts those that somebody failed over, also after some were taken from its front", () => {
    const queue = [group(0, 1), group(1), group(2, 3), group(3, 1)];
    expect(suspectsIn(queue)).toBe(3);
    const rest = withoutTaken(queue, queue.slice(0, 2));
    expect([rest, suspectsIn(rest)]).toEqual([[group(2, 3), group(3, 1)], 2]);
    expect(suspectsIn(withoutTaken(rest, rest))).toBe(0);
  });

  it("gives groups that nobody failed over, wherever they stand, and loses these and no others", () => {
    const queue = [group(0, 1), group(1), group(2), group(3, 2), group(4)];
    const taken = innocentsIn(queue, 2);
    expect(taken).toEqual([group(1), group(2)]);
    expect(withoutTaken(queue, taken)).toEqual([group(0, 1), group(3, 2), group(4)]);
    const calm = [group(5), group(6), group(7)];
    expect(innocentsIn(calm, 2)).toEqual([group(5), group(6)]);
    expect(withoutTaken(calm, innocentsIn(calm, 2))).toEqual([group(7)]);
  });

  it("knows which groups wait, with and without gaps between them", () => {
    const waiting = (queue: Parameters<typeof isQueued>[0]) =>
      [4, 5, 6, 7, 8].filter((index) => isQueued(queue, index));
    expect(waiting([group(5), group(6), group(7)])).toEqual([5, 6, 7]);
    expect(waiting([group(5), group(7)])).toEqual([5, 7]);
    expect(waiting([group(7), group(6)])).toEqual([6, 7]);
    expect(waiting([])).toEqual([]);
    const run = [group(4), group(5), group(6)];
    expect(waiting(withoutTaken(run, run.slice(0, 1)))).toEqual([5, 6]);
  });
});
