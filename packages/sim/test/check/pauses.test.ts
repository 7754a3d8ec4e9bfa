import { type Decision, Judge, MembershipChecker } from "@muster/check/internal";
import { planOf } from "@muster/machines/controller";
import type { Body } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import type { Scenario } from "../../src/cluster/scenario.ts";
import { drawScenario } from "../../src/seed/draw-scenario.ts";
import { runScenario } from "../../src/seed/run-scenario.ts";
import { VirtualWorld } from "../../src/world/world.ts";
import { modelsOf } from "../support/models.ts";

const timeout = 60_000;

/** One replica is evicted near the end of the faults, and may come back only long after the promises of L1 and L3 are due. */
function evictLate(seed: number, node: string, readmitAfterMs: number): Scenario {
  const drawn = drawScenario(seed, "kills");
  const { config, safetyMs } = drawn;
  const { deadAfterMs } = config.timing;
  return {
    ...drawn,
    config: { ...config, steps: 60, health: { ...config.health, readmitAfterMs } },
    limitMs: drawn.limitMs + 2_000_000,
    faults: [{ kind: "pause", node, atMs: safetyMs - 2 * deadAfterMs, forMs: 3 * deadAfterMs }],
  };
}

describe("a replica that was evicted for long", () => {
  it("may be no member for as long as its pause lasts (L3)", { timeout }, async () => {
    const run = await runScenario(evictLate(2, "policy-1", 150_000));
    expect(run.violations).toEqual([]);
    expect(run.virtualMs).toBeGreaterThan(run.scenario.safetyMs + 300_000);
  });

  it("may keep a job from its work that has nobody else (L1)", { timeout }, async () => {
    const drawn = evictLate(9, "rollout-1", 300_000);
    const { config } = drawn;
    const replicas = { ...config.replicas, rollout: 1 };
    const run = await runScenario({
      ...drawn,
      config: { ...config, replicas, initReplicas: { policy: 1, rollout: 1 } },
    });
    expect(run.violations).toEqual([]);
  });

  it("is a member once its pause is over, and waits no longer than the times it was evicted lead to", () => {
    const { process } = modelsOf();
    const one = process("policy-1", "policy");
    const waiting = { "policy-1": { incarnation: "i1", body: {} as Body<"replica.register"> } };
    // Evicted three times, the last time at 100 s: 2 s doubled twice.
    const evictions = {
      "policy-1": { times: [80_000, 90_000, 100_000], untilMs: Number.MAX_SAFE_INTEGER, host: "h", pid: 1 },
    };
    const plan = planOf(drawScenario(1, "quiet").config);
    const stateAt = (nowMs: number) =>
      ({
        members: {},
        ending: null,
        stopped: false,
        waiting,
        evictions,
        nowMs,
        plan,
      }) as Partial<Decision["after"]> as Decision["after"];
    const found = (nowMs: number, mayWait?: boolean): readonly string[] => {
      const judge = new Judge(new VirtualWorld(1));
      const checker = new MembershipChecker(judge, Number.POSITIVE_INFINITY);
      checker.identified({ job: "sim", id: "policy-1", role: "policy", incarnation: "i1" }, one, 0);
      checker.checkAdmitted(stateAt(nowMs), nowMs, mayWait);
      return judge.violations.map(({ invariant }) => invariant);
    };
    expect(found(107_000)).toEqual([]);
    expect(found(109_000)).toEqual(["L3"]);
    expect(found(107_000, false)).toEqual(["L3"]);
  });
});
