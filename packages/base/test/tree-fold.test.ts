import { describe, expect, it } from "vitest";
import { TreeFold } from "../src/index.ts";

const textOf = (things: readonly string[]): string | undefined => {
  const fold = new TreeFold((left: string, right: string) => `(${left}${right})`);
  for (const thing of things) fold.push(thing);
  return fold.sum();
};

/** The tree as its definition has it. */
const defined = (things: readonly string[]): string => {
  if (things.length < 2) return things[0] ?? "";
  const left = 2 ** Math.floor(Math.log2(things.length - 1));
  return `(${defined(things.slice(0, left))}${defined(things.slice(left))})`;
};

describe("a fold along a tree", () => {
  it("halves at the largest power of two, whatever the number of things", () => {
    expect(textOf([..."abc"])).toBe("((ab)c)");
    expect(textOf([..."abcdef"])).toBe("(((ab)(cd))(ef))");
    for (let count = 1; count <= 130; count++) {
      const things = Array.from({ length: count }, (_, i) => String.fromCharCode(0x100 + i));
      expect(textOf(things)).toBe(defined(things));
    }
  });

  it("has nothing to say of nothing", () => {
    expect(textOf([])).toBeUndefined();
  });
});
