/** Names that others make up are shown up to a bound, and what is shown once stays. */
import { expect, test } from "vitest";
import { firstNames } from "../src/index.ts";

test("the first names that are heard are shown, in the order in which they came, and none beyond the bound", () => {
  const shown = firstNames(["a"], ["c", "a", "b", "c", "d"], 3);
  expect(shown).toEqual(["a", "c", "b"]);
  expect(firstNames(shown, ["e"], 3)).toBe(shown);
});

test("nothing new is the same list, so that who compares them sees no change", () => {
  const shown = ["a", "b"];
  expect(firstNames(shown, ["b"], 3)).toBe(shown);
});
