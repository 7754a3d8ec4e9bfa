import { expect, it } from "vitest";
import type { CheckpointInfo } from "../src/read.ts";
import { newestFirst } from "../src/retention.ts";

it("the newest checkpoint is the one of the highest lineage, then step, then version, then term, and then the last copy", () => {
  const of = (lineage: number, step: number, version: number, term: number, name: string) =>
    ({ lineage, step, version, term, name }) as CheckpointInfo;
  const newest = [
    of(2, 1, 1, 1, "a"),
    of(1, 9, 1, 1, "a"),
    of(1, 8, 8, 1, "a"),
    of(1, 8, 7, 9, "a"),
    of(1, 8, 7, 8, "b"),
    of(1, 8, 7, 8, "a"),
  ];
  for (const [i, a] of newest.entries())
    for (const [j, b] of newest.entries())
      if (i !== j) expect(Math.sign(newestFirst(a, b)), `${i} and ${j}`).toBe(Math.sign(i - j));
  expect(newest.toReversed().sort(newestFirst)).toEqual(newest);
});
