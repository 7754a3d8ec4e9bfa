import { describe, expect, it } from "vitest";
import { actionsAt, exceptions, fleetPairs, pairs } from "../../src/faults/pairs.ts";
import { fleetPoints, points, rankPoints } from "../../src/faults/points.ts";
import { coverageOf } from "../../src/seed/coverage.ts";
import { drawScenario, type Profile } from "../../src/seed/draw-scenario.ts";

const keyOf = ({ point, action }: { readonly point: string; readonly action: string }): string => `${point} ${action}`;

/** How often the seeds that continuous integration runs arm each pair. */
function armedIn(profile: Profile, seeds: number): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (let seed = 1; seed <= seeds; seed++)
    for (const fault of drawScenario(seed, profile).faults)
      if (fault.kind === "failpoint") {
        const key = keyOf({ point: fault.point, action: fault.action.type });
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
  return counts;
}

describe("the failpoints of many seeds", () => {
  it("arm every pair of a point and an action again and again, and none that is excepted", { timeout: 30_000 }, () => {
    const counts = armedIn("swarm", 2_000);
    const ofRanks = rankPoints.flatMap((point) => actionsAt(point).map((action) => ({ point, action })));
    const known = new Set([...pairs, ...ofRanks].map(keyOf));
    expect(pairs.filter((pair) => (counts.get(keyOf(pair)) ?? 0) < 5).map(keyOf)).toEqual([]);
    expect([...counts.keys()].filter((key) => !known.has(key))).toEqual([]);
  });

  it("end a controller right before and right after an append of its journal, again and again within sixty seeds", () => {
    for (const profile of ["swarm", "fleet"] as const) {
      const counts = armedIn(profile, 60);
      const [before = 0, after = 0] = ["before", "after"].map((at) => counts.get(`controller.${at}-journal crash`));
      expect(Math.min(before, after), profile).toBeGreaterThanOrEqual(3);
    }
  });

  it("leave one seed in four without any, in which times can be judged", () => {
    const withSome = [1, 2, 3, 4, 5, 6, 7, 8].filter((seed) =>
      drawScenario(seed, "swarm").faults.some(({ kind }) => kind === "failpoint"),
    );
    expect(withSome).toEqual([1, 2, 3, 5, 6, 7]);
  });

  it("except only what some point has", () => {
    for (const { where } of exceptions) expect([...points, ...fleetPoints].some((name) => where.test(name))).toBe(true);
    expect(new Set([...pairs, ...fleetPairs].map(keyOf)).size).toBe(pairs.length + fleetPairs.length);
  });
});

describe("the coverage of a run", () => {
  it("names what never happened, also where the point was reached", () => {
    const crashed = { hits: 3, crash: 1 };
    const { possible, reached, never } = coverageOf("swarm", { "policy.begin": crashed }) ?? {};
    expect({ possible, reached }).toEqual({ possible: pairs.length, reached: 1 });
    expect(never?.slice().sort()).toEqual(
      pairs
        .map(keyOf)
        .filter((key) => key !== "policy.begin crash")
        .sort(),
    );
  });

  it("counts what only jobs with nodes have where there are nodes, and nothing without failpoints", () => {
    expect(coverageOf("fleet", {})?.possible).toBe(fleetPairs.length);
    expect(coverageOf("kills", {})).toBeNull();
  });
});
