import { describe, expect, it } from "vitest";
import { drawScenario, profiles } from "../../src/seed/draw-scenario.ts";
import { runScenario } from "../../src/seed/run-scenario.ts";

/** Any seeds would do; a run prints its own in the title. */
const seeds = [11, 12, 13];

describe("a run of the simulator", () => {
  it.each(seeds)("is the same run when it is repeated: seed %i", { timeout: 60_000 }, async (seed) => {
    const scenario = drawScenario(seed, "swarm");
    const [first, again] = [await runScenario(scenario), await runScenario(scenario)];
    expect(again.hash).toBe(first.hash);
    expect([again.events, again.virtualMs, again.end]).toEqual([first.events, first.virtualMs, first.end]);
  });

  it("is another run under another seed", { timeout: 60_000 }, async () => {
    const hashes = await Promise.all(seeds.map(async (seed) => (await runScenario(drawScenario(seed, "quiet"))).hash));
    expect(new Set(hashes).size).toBe(seeds.length);
  });

  it("draws its scenario from seed and profile alone", () => {
    for (const profile of profiles) expect(drawScenario(5, profile)).toEqual(drawScenario(5, profile));
    expect(drawScenario(5, "swarm")).not.toEqual(drawScenario(6, "swarm"));
  });
});
