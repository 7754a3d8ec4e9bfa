import { expect, test } from "vitest";
import { matcherOf } from "../src/memory/subject.ts";

test.each([
  ["a.b", "a.b", true],
  ["a.b", "a.b.c", false],
  ["a.*", "a.b", true],
  ["a.*", "a", false],
  ["a.*.c", "a.b.c", true],
  ["a.*.c", "a.b.d", false],
  ["a.>", "a.b.c", true],
  ["a.>", "a", false],
  [">", "a.b", true],
])("the pattern %s against %s gives %s", (pattern, subject, isMatch) => {
  expect(matcherOf(pattern)(subject)).toBe(isMatch);
});
