import { describe, expect, it } from "vitest";
import { surrogateOf } from "../src/algorithms/grpo.ts";
import { advantagesOf, learningRateAt } from "../src/index.ts";

const all = (count: number): boolean[] => new Array<boolean>(count).fill(true);

describe("advantages", () => {
  it("are the rewards' distances from the mean in standard deviations", () => {
    const [low, high] = advantagesOf([0, 1, 1, 0], all(4)) as [number, number];
    expect(high).toBeCloseTo(0.5 / 0.5001, 12);
    expect(low).toBe(-high);
  });

  it("are zero when all rewards are equal, so that the group teaches nothing", () => {
    expect(advantagesOf([0.1, 0.1, 0.1], all(3))).toEqual([0, 0, 0]);
    expect(advantagesOf([], [])).toEqual([]);
  });

  it("ignore placeholders: they neither shift the baseline nor get an advantage", () => {
    const clean = advantagesOf([1, 0, 1], all(3));
    expect(advantagesOf([1, 0, 0, 1], [true, true, false, true])).toEqual([clean[0], clean[1], 0, clean[2]]);
  });

  it("are zero with fewer than two valid members", () => {
    expect(advantagesOf([1, 0, 0], [true, false, false])).toEqual([0, 0, 0]);
    expect(advantagesOf([1, 0], [false, false])).toEqual([0, 0]);
  });
});

describe("the clipped surrogate", () => {
  const clip = { clipLow: 0.2, clipHigh: 0.28 };

  it("passes ratios inside the bounds", () => {
    expect(surrogateOf(1.25, 2, clip)).toEqual({ value: 2.5, slope: 2.5, clipped: false });
    expect(surrogateOf(0.85, -1, clip)).toEqual({ value: -0.85, slope: -0.85, clipped: false });
  });

  it("holds gains: no gradient above the upper bound for good tokens, nor below the lower one for bad tokens", () => {
    expect(surrogateOf(1.5, 2, clip)).toEqual({ value: 2.56, slope: 0, clipped: true });
    expect(surrogateOf(0.5, -2, clip)).toEqual({ value: -1.6, slope: 0, clipped: true });
  });

  it("does not hold losses: a token on the wrong side keeps its gradient", () => {
    expect(surrogateOf(1.5, -2, clip)).toEqual({ value: -3, slope: -3, clipped: false });
    expect(surrogateOf(0.5, 2, clip)).toEqual({ value: 1, slope: 1, clipped: false });
  });
});

describe("the learning rate", () => {
  it("rises linearly to its value and stays", () => {
    const rate = (step: number): number => learningRateAt(step, { lr: 10, warmupSteps: 5 });
    expect([1, 2, 5, 6, 100].map(rate)).toEqual([2, 4, 10, 10, 10]);
    expect(learningRateAt(1, { lr: 3, warmupSteps: 0 })).toBe(3);
  });
});
