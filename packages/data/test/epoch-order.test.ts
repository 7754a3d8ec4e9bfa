import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { shuffledRow } from "../src/epoch-order.ts";

describe("the order of an epoch", () => {
  it("has each row once, whatever the number of rows", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3_000 }), fc.nat(), fc.nat({ max: 50 }), (rows, seed, epoch) => {
        const order = Array.from({ length: rows }, (_, i) => shuffledRow({ position: epoch * rows + i, rows, seed }));
        expect(order.toSorted((a, b) => a - b)).toEqual(order.map((_, i) => i));
      }),
      { numRuns: 60 },
    );
  });

  it("is another one in the next epoch and under another seed", () => {
    const orderOf = (epoch: number, seed: number): string =>
      Array.from({ length: 100 }, (_, i) => shuffledRow({ position: epoch * 100 + i, rows: 100, seed })).join();
    expect(new Set([orderOf(0, 1), orderOf(1, 1), orderOf(0, 2)]).size).toBe(3);
  });

  it("spreads twenty million rows without memory of their number", () => {
    const rows = 20_000_000;
    const first = Array.from({ length: 1_000 }, (_, position) => shuffledRow({ position, rows, seed: 3 }));
    expect(new Set(first).size).toBe(1_000);
    const mean = first.reduce((sum, row) => sum + row, 0) / first.length;
    expect(Math.abs(mean / rows - 0.5)).toBeLessThan(0.05);
  });
});
