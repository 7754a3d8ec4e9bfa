/** Pairs of a failpoint and an action that many seeds did not come to, and the seeds that they get for themselves. */
import { expect, it } from "vitest";
import { pairs } from "../../src/faults/pairs.ts";
import { reachMissing } from "../../src/seed/reach.ts";
import { emptySums, type Sums } from "../../src/seed/tally.ts";

/** Sums of seeds in which all pairs happened but the first `missing` and this one. */
function sumsWithout(point: string, action: string, missing = 0): Sums {
  const sums = emptySums();
  for (const pair of pairs.slice(missing)) {
    if (pair.point === point && pair.action === action) continue;
    sums.points[pair.point] = { hits: 1, ...sums.points[pair.point], [pair.action]: 1 };
  }
  return sums;
}

const first = { profile: "swarm", firstSeed: 1 } as const;

it("a pair that no seed came to is armed alone, in seed after seed, until it happened", {
  timeout: 60_000,
}, async () => {
  const sums = sumsWithout("policy.accumulate", "delay");
  const armed: string[][] = [];
  await reachMissing(sums, {
    ...first,
    onSeed: ({ result }) =>
      armed.push(result.scenario.faults.flatMap((fault) => (fault.kind === "failpoint" ? [fault.point] : []))),
  });
  expect(sums.points["policy.accumulate"]?.delay).toBeGreaterThan(0);
  expect(armed.length).toBeGreaterThan(0);
  expect(armed.flat()).toEqual(armed.map(() => "policy.accumulate"));
});

it("when many are missing, too few seeds were run: none is gone for", async () => {
  const sums = sumsWithout("policy.accumulate", "delay", Math.ceil(pairs.length / 10));
  await reachMissing(sums, { ...first, onSeed: () => expect.unreachable() });
  expect(sums.seeds).toBe(0);
});
