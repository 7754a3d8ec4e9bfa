import { describe, expect, it } from "vitest";
import { engineVersionOf, policyVersionOf, sectionsOf } from "../src/weights.ts";

const versionMax = 2 ** 32 - 1;
const versions = [0, 1, 250, 2 ** 31, versionMax];
const lineages = [0, 1, 2, 1_000, 2 ** 20];

describe("the number of a version in an engine", () => {
  it.each(lineages)("gives back the policy version in lineage %i", (lineage) => {
    for (const version of versions) expect(policyVersionOf(engineVersionOf({ lineage, version }))).toBe(version);
  });

  it("is exact and differs for every lineage and version", () => {
    const numbers = lineages.flatMap((lineage) => versions.map((version) => engineVersionOf({ lineage, version })));
    expect(numbers.every(Number.isSafeInteger)).toBe(true);
    expect(new Set(numbers).size).toBe(numbers.length);
  });

  it("grows with a new lineage, however far the job is rolled back", () => {
    for (const lineage of lineages)
      expect(engineVersionOf({ lineage: lineage + 1, version: 0 })).toBeGreaterThan(
        engineVersionOf({ lineage, version: versionMax }),
      );
  });
});

describe("the sections of a message", () => {
  it("are name, size and digest of what was published, in order, and nothing else of it", () => {
    const published = [
      { name: "weights", bytes: 8, digest: "d1", slot: 3 },
      { name: "optimizer", bytes: 16, digest: "d2", slot: 3 },
    ];
    expect(sectionsOf(published)).toEqual([
      { name: "weights", bytes: 8, digest: "d1" },
      { name: "optimizer", bytes: 16, digest: "d2" },
    ]);
  });
});
