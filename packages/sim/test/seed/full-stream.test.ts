/** A groups stream that holds far less than the history of the job: whoever finds it full waits, and is not to blame. */
import type { ControllerEvent } from "@muster/machines/controller";
import { describe, expect, it, vi } from "vitest";
import { logicBug } from "../../src/canaries/logic-bug.ts";
import type { Scenario } from "../../src/cluster/scenario.ts";
import { drawScenario } from "../../src/seed/draw-scenario.ts";
import { cramped } from "../../src/seed/draw-streams.ts";
import { runScenario } from "../../src/seed/run-scenario.ts";

vi.setConfig({ testTimeout: 120_000 });

/** Work in which nothing is wrong, the shipped attempts, and no checkpoint before the last one unless somebody sees that it is needed. */
function peaceOf(seed: number): Scenario {
  const { config, work, ...rest } = drawScenario(seed, "quiet");
  const { replicas, checkpoint, failure } = config;
  return {
    ...rest,
    work: { ...work, poisonRate: 0, overflowRate: 0, killerRate: 0, hangerRate: 0 },
    config: {
      ...config,
      replicas: { ...replicas, checkpoint: Math.max(1, replicas.checkpoint) },
      checkpoint: { ...checkpoint, everySteps: 0 },
      failure: { ...failure, engineCrash: { action: "quarantine", attempts: 3, backoffMs: 0 } },
    },
  };
}

/** Counts what samplers say of full streams; the controller hears that or not, and sees that the stream fills or not. */
function listening({ isHeard, isSeen }: { readonly isHeard: boolean; readonly isSeen: boolean }) {
  let held = 0;
  const canary = logicBug("listening", "counts reports of a full stream", {
    ...{ profile: "quiet", seedsMax: 1 },
    line: {
      hears: (event) => {
        const nothing = { type: "controller.tick", atMs: event.atMs } satisfies ControllerEvent;
        if (event.type === "controller.filled") return isSeen ? event : nothing;
        if (event.type !== "groups.held") return event;
        held += 1;
        return isHeard ? event : nothing;
      },
    },
  });
  return { bug: canary.make(), count: () => held };
}

const seeds = [2, 3, 4, 5];

describe("a groups stream that is full again and again", () => {
  it("costs no group and no bit of the result", async () => {
    const held = { late: 0, inTime: 0 };
    for (const [when, seed] of seeds.flatMap((each) => [["late", each] as const, ["inTime", each] as const])) {
      const scenario = peaceOf(seed);
      const wide = await runScenario(scenario);
      const { bug, count } = listening({ isHeard: true, isSeen: when === "inTime" });
      const narrow = await runScenario(cramped(scenario, 2), bug);
      expect({ seed, violations: narrow.violations }).toEqual({ seed, violations: [] });
      expect({ seed, quarantined: narrow.end?.ledger.quarantined }).toEqual({ seed, quarantined: 0 });
      if (scenario.config.mode === "sync") expect(narrow.end?.sections).toEqual(wide.end?.sections);
      held[when] += count();
    }
    // Who sees that it fills orders the checkpoint before anybody has to wait.
    expect(held.late).toBeGreaterThan(0);
    expect(held.inTime).toBe(0);
  });

  it("would end jobs if their controllers did not hear of it", async () => {
    const found: string[] = [];
    for (const seed of seeds.slice(0, 3)) {
      const { bug } = listening({ isHeard: false, isSeen: false });
      const { violations } = await runScenario(cramped(peaceOf(seed), 2), bug);
      found.push(...violations.map(({ invariant }) => invariant));
    }
    expect(found.length).toBeGreaterThan(0);
  });
});
