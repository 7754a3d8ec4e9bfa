import { expect, test } from "vitest";
import { matcherOf, SubjectIndex } from "../src/memory/subject.ts";

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

test("an index finds the values whose pattern a subject matches, and forgets those that are taken out", () => {
  const index = new SubjectIndex<string>();
  for (const pattern of [">", "a.>", "a.b", "a.*.c", "*.b", "a.b.>"]) index.add(pattern, pattern);
  const stop = index.add("a.b", "again");
  expect(index.matching("a.b")).toEqual([">", "*.b", "a.>", "a.b", "again"]);
  stop();
  expect(index.matching("a.b")).toEqual([">", "*.b", "a.>", "a.b"]);
  expect(index.matching("a.b.c")).toEqual([">", "a.>", "a.*.c", "a.b.>"]);
  expect(index.matching("b")).toEqual([">"]);
});
