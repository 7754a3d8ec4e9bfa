import { describe, expect, it } from "vitest";
import { medianOf } from "../src/median.ts";

describe("the median", () => {
  it("of an odd number of values is the one in the middle, in whatever order they come", () => {
    const values = [9, 1, 10];
    expect(medianOf(values)).toBe(9);
    expect(values).toEqual([9, 1, 10]);
  });

  it("of an even number of values is the mean of the two in the middle", () => {
    expect(medianOf([4, 1, 3, 2])).toBe(2.5);
  });

  it("of nothing is not a number", () => {
    expect(medianOf([])).toBeNaN();
  });
});
