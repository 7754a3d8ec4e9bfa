/** Shares and barriers as pure functions: sums that are exact, ends that happen once. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  abortBarrier,
  arrive,
  type BarrierRules,
  expire,
  flawOfRules,
  missingOf,
  type OnMissing,
  openBarrier,
  ranksText,
} from "../src/phases/barrier.ts";
import { largestRemainder, shareOut, sizeOfRanges, unfinished } from "../src/phases/shares.ts";

const weightsArbitrary = fc.array(fc.integer({ min: 1, max: 1_000_000 }), { minLength: 1, maxLength: 256 });
const itemsArbitrary = fc.integer({ min: 0, max: 1_000_000_000 });

describe("shares", () => {
  it("of 2,1,1 are a half and two quarters", () => {
    expect(largestRemainder(512, [2, 1, 1])).toEqual([256, 128, 128]);
  });

  it("give what is left over to the largest remainders, the first of equals first", () => {
    expect(largestRemainder(10, [1, 1, 1])).toEqual([4, 3, 3]);
    expect(largestRemainder(5, [3, 3, 1])).toEqual([2, 2, 1]);
  });

  it("by weights that are all 0 are nothing, and so are shares of nothing", () => {
    expect(largestRemainder(5, [0, 0])).toEqual([0, 0]);
    expect(largestRemainder(0, [1, 2])).toEqual([0, 0]);
    expect(shareOut([], [{ rank: 0, weight: 1 }])).toEqual([]);
    expect(unfinished(0, [])).toEqual([]);
  });

  it("are of one piece where nothing was done in the middle, and empty beyond the last item", () => {
    expect(unfinished(10, [{ from: 5, to: 5 }])).toEqual([{ from: 0, to: 10 }]);
    expect(
      unfinished(5, [
        { from: 0, to: 5 },
        { from: 7, to: 9 },
      ]),
    ).toEqual([]);
    expect(
      unfinished(8, [
        { from: 0, to: 5 },
        { from: 7, to: 9 },
      ]),
    ).toEqual([{ from: 5, to: 7 }]);
  });

  it("have an exact sum, and none differs from its quota by 1 or more", () => {
    fc.assert(
      fc.property(itemsArbitrary, weightsArbitrary, (count, weights) => {
        const parts = largestRemainder(count, weights);
        const sum = weights.reduce((total, weight) => total + weight, 0);
        expect(parts.reduce((total, part) => total + part, 0)).toBe(count);
        for (const [i, part] of parts.entries())
          expect(Math.abs(part - (count * (weights[i] ?? 0)) / sum)).toBeLessThan(1.000_001);
      }),
    );
  });

  it("cover exactly the items that nobody has finished, each of them once", () => {
    const range = fc.tuple(fc.nat(200), fc.nat(60)).map(([from, size]) => ({ from, to: from + size }));
    fc.assert(
      fc.property(fc.nat(200), fc.array(range, { maxLength: 12 }), weightsArbitrary, (items, done, weights) => {
        const left = unfinished(items, done);
        const shares = shareOut(
          left,
          weights.map((weight, rank) => ({ rank, weight })),
        );
        const isDone = (item: number) => done.some(({ from, to }) => from <= item && item < to);
        const wanted = Array.from({ length: items }, (_, item) => item).filter((item) => !isDone(item));
        const dealt = shares.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => from + i));
        expect([...dealt].sort((a, b) => a - b)).toEqual(wanted);
        const sizes = weights.map((_, rank) => sizeOfRanges(shares.filter((share) => share.rank === rank)));
        expect(sizes).toEqual(largestRemainder(wanted.length, weights));
        // Bounded: each cut and each gap makes one piece more at most.
        expect(shares.length).toBeLessThanOrEqual(left.length + weights.length);
      }),
    );
  });
});

const rules = (patch: Partial<BarrierRules> = {}): BarrierRules => {
  return { ranks: 3, weights: [2, 1, 1], quorum: 2, timeoutMs: 100, onMissing: "wait", items: 0, ...patch };
};
const come = (barrier: ReturnType<typeof openBarrier>, rank: number, atMs = 0, to = 0) =>
  arrive(barrier, { rank, done: to > 0 ? [{ from: 0, to }] : [] }, atMs);

describe("a barrier", () => {
  it("ends when the last of its ranks arrives, whatever the order, and says how long that took", () => {
    const orders = [0, 1, 2].flatMap((a) => [0, 1, 2].flatMap((b) => (a === b ? [] : [[a, b, 3 - a - b]])));
    for (const order of orders) {
      const barriers = order.reduce((barrier, rank, i) => come(barrier, rank, i * 10), openBarrier(rules(), [], 0));
      expect(barriers.end).toMatchObject({ outcome: "whole", missing: [], waitedMs: 20 });
    }
  });

  it("counts an arrival once, however often it is said, and its first words", () => {
    const once = come(openBarrier(rules(), [], 0), 1, 0, 5);
    expect(come(once, 1, 50, 9)).toBe(once);
    expect(missingOf(once)).toEqual([0, 2]);
  });

  it("waits for nobody who was out before", () => {
    const barrier = [0, 2].reduce((next, rank) => come(next, rank), openBarrier(rules(), [1], 0));
    expect(barrier.end).toMatchObject({ outcome: "whole", missing: [] });
  });

  it.each<[OnMissing, number, string | null]>([
    ["wait", 2, null],
    ["eject", 2, "partial"],
    ["eject", 1, null],
    ["abort", 2, "aborted"],
  ])("whose rule is %s ends at its deadline with %i of 3 as %s, and names the missing", (onMissing, count, outcome) => {
    const there = Array.from({ length: count }, (_, rank) => rank);
    const barrier = there.reduce((next, rank) => come(next, rank), openBarrier(rules({ onMissing }), [], 0));
    expect(expire(barrier, 99)).toBe(barrier);
    const after = expire(barrier, 100);
    expect(after.end?.outcome ?? null).toBe(outcome);
    if (outcome === null) expect(after.dueAtMs).toBe(200);
    else
      expect(after.end?.reason).toBe(
        `rank 2 did not arrive within 100 ms${outcome === "partial" ? "; 2 of 3 go on (quorum 2)" : ""}`,
      );
  });

  it("that goes on without a rank shares out what it left, and says how much was done", () => {
    const barrier = [0, 1].reduce(
      (next, rank) => arrive(next, { rank, done: [{ from: rank * 40, to: rank * 40 + 40 }] }, 0),
      openBarrier(rules({ onMissing: "eject", items: 100 }), [], 0),
    );
    expect(expire(barrier, 100).end).toMatchObject({
      coverage: 0.8,
      shares: [
        { rank: 0, from: 80, to: 93 },
        { rank: 1, from: 93, to: 100 },
      ],
    });
  });

  it("that is given up says why and shares nothing out; one that has ended stays as it ended", () => {
    const open = come(openBarrier(rules({ items: 10 }), [], 100), 1, 120, 5);
    const end = { outcome: "aborted", missing: [0, 2], reason: "so", waitedMs: 30, coverage: 0.5, shares: [] };
    expect(abortBarrier(open, "so", 130)).toMatchObject({ end });
    expect(open.end).toBeNull();
    const ended = [0, 2].reduce((next, rank) => come(next, rank), open);
    expect(abortBarrier(ended, "so", 130)).toBe(ended);
  });

  it("has waited for no time at all where the clock went back, and covers everything where there is nothing to do", () => {
    const ended = [0, 1, 2].reduce((next, rank) => come(next, rank, 40), openBarrier(rules(), [], 100));
    expect(ended.end).toMatchObject({ outcome: "whole", waitedMs: 0, coverage: 1, shares: [] });
  });

  it("waits again for a rank that was out and came all the same", () => {
    const back = come(openBarrier(rules(), [1], 0), 1);
    expect(back.absent).toEqual([]);
    expect(missingOf(back)).toEqual([0, 2]);
  });

  it("takes the decision of rank 0, and of nobody else", () => {
    const say = (rank: number) => arrive(openBarrier(rules(), [], 0), { rank, done: [], decision: "go" }, 0).decision;
    expect([say(0), say(1)]).toEqual(["go", undefined]);
  });

  it.each<[Partial<BarrierRules>, string | null]>([
    [{}, null],
    [{ weights: [] }, null],
    [{ weights: [1] }, "weights has 1 values for 3 ranks"],
    [{ weights: [1, 1] }, "weights has 2 values for 3 ranks"],
    [{ timeoutMs: 1_000 }, null],
    [{ timeoutMs: 999 }, "use at least 1000"],
    [{ quorum: 3 }, null],
    [{ quorum: 4 }, "use at most 3"],
  ])("may have the rules %j: %s", (patch, flaw) => {
    const said = flawOfRules(rules({ timeoutMs: 1_000, ...patch }));
    if (flaw === null) expect(said).toBeNull();
    else expect(said).toContain(flaw);
  });

  it("names up to sixteen ranks, and counts the others", () => {
    const ranks = Array.from({ length: 18 }, (_, rank) => rank);
    expect(ranksText([2])).toBe("rank 2");
    expect(ranksText(ranks.slice(0, 16))).toMatch(/^ranks 0, 1, .*, 15$/);
    expect(ranksText(ranks)).toMatch(/, 15 and 2 more$/);
  });

  it("ends once: nothing that comes later changes it", () => {
    const ended = expire(come(openBarrier(rules({ onMissing: "abort" }), [], 0), 0), 100);
    expect(come(ended, 1, 150)).toBe(ended);
    expect(expire(ended, 1_000)).toBe(ended);
  });
});
