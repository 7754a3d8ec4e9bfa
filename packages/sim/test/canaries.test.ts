import { describe, expect, it } from "vitest";
import { canaries, runCanary } from "../src/canaries/run-canaries.ts";
import { drawScenario } from "../src/seed/draw-scenario.ts";
import { shrink } from "../src/seed/shrink.ts";

const timeout = 60_000;

/** A few that are seen at once, one for each place where a bug can lie; `muster sim --canaries` runs all. */
const sample = [
  ["effects-before-journal", "S4"],
  ["apply-before-commit", "S22"],
  ["leases-without-bound", "S31"],
  ["held-said-backwards", "S9"],
  ["half-pulled", "S28"],
  ["leaver-cleans-up", "S26"],
  ["older-goes-uncopied", "S26"],
  ["lease-not-said", "L2"],
  ["failed-checkpoint-given-up", "L7"],
  ["slow-waits-again", "L8"],
  ["last-record-not-read", "L4"],
  ["hang-blames-nobody", "S20"],
  ["hang-blames-all", "S20"],
  ["records-purged-early", "S2"],
  ["snapshot-forgets-timers", "S4"],
  ["commands-forgotten", "F4"],
  ["cordon-ignored", "F5"],
  ["moved-without-successor", "F3"],
  ["devices-not-awaited", "F8"],
  ["device-given-twice", "F8"],
  ["ranks-not-awaited", "F9"],
  ["pause-without-end", "L3"],
  ["memory-not-used", "S24"],
  ["leftovers-stay", "S39"],
  ["evicted-on-nodes", "L6"],
  ["shard-vote-of-one-rank", "S22"],
  ["shard-not-taken", "S28"],
] as const;

describe("deliberate bugs", () => {
  it("are many, with names of their own, each in a sentence", () => {
    expect(canaries.length).toBeGreaterThanOrEqual(40);
    expect(new Set(canaries.map(({ name }) => name)).size).toBe(canaries.length);
    for (const { says } of canaries) expect(says.length).toBeGreaterThan(20);
  });

  it.each(sample)("%s is seen by %s", { timeout }, async (name, invariant) => {
    const canary = canaries.find((one) => one.name === name);
    expect(canary && (await runCanary(canary)).caughtBy).toBe(invariant);
  });
});

describe("shrinking a scenario", () => {
  it("leaves the faults that the failure needs, and gives back what does not fail", { timeout }, async () => {
    const scenario = drawScenario(3, "quiet");
    const faults = [100, 200, 300].map((atMs) => ({ kind: "clock-jump", atMs, node: "controller", byMs: 5 }) as const);
    // A limit that nothing can meet fails whatever goes wrong: one fault is as good as three.
    const hopeless = { ...scenario, faults, limitMs: 1_000 };
    expect((await shrink(hopeless, "L1")).faults).toHaveLength(1);
    expect((await shrink(hopeless, "S1")).faults).toHaveLength(3);
  });
});
