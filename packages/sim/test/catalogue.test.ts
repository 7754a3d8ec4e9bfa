import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { canaries } from "../src/canaries/run-canaries.ts";
import { fleetPoints, points, rankPoints } from "../src/faults/points.ts";
import { faultWeights } from "../src/faults/profiles.ts";
import { profiles } from "../src/seed/draw-scenario.ts";

const catalogue = readFileSync(new URL("../../../docs/internals/simulator.md", import.meta.url), "utf8");

/** A point as the table names it: without its role, and without where around a message it lies. */
const shortOf = (point: string): string => point.replace(/^\w+\.((before-publish|after-publish|on|before-ack)\.)?/, "");

describe("the catalogue of the simulator", () => {
  it("names every failpoint, deliberate bug, profile and kind of fault", () => {
    const quoted = [
      ...[...points, ...fleetPoints, ...rankPoints].map(shortOf),
      ...canaries.map(({ name }) => name),
      ...profiles,
    ];
    expect(quoted.filter((name) => !catalogue.includes(`\`${name}\``))).toEqual([]);
    const kinds = Object.values(faultWeights).flatMap((weights) => weights.map(([kind]) => kind));
    expect(kinds.filter((kind) => !catalogue.includes(kind))).toEqual([]);
    expect(new Set([...points, ...fleetPoints]).size).toBe(points.length + fleetPoints.length);
    expect(catalogue).toContain(`add ${fleetPoints.length} more`);
    expect(catalogue).toContain(`${points.length} named places`);
    expect(catalogue).toContain(`${canaries.length} single-line bugs`);
    const ci = readFileSync(new URL("../../../.ci/run", import.meta.url), "utf8");
    const each = Number(/^canaries=(\d+)$/m.exec(ci)?.[1]);
    // Three commits in a row run all of them.
    expect(3 * each).toBeGreaterThanOrEqual(canaries.length);
  });
});
