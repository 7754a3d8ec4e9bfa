/**
 * A planner that rested is asked again only when a table that it reads has changed. Whoever knows nothing of a state asks all of them: a copy of it is such
 * a state, and every input must lead to the same from both.
 */
import { randomOf } from "@muster/base";
import { control } from "@muster/machines/internal";
import { replicaRoles } from "@muster/protocol";
import fc from "fast-check";
import { expect, it } from "vitest";
import { planners } from "../src/controller/reconcile.ts";
import type { ControllerState } from "../src/controller/state.ts";
import { Cluster, type Observer } from "./cluster.ts";
import { plan } from "./plans.ts";
import { groupsOf, planWith, working } from "./states.ts";

/** Takes every input twice: from the state as it is, and from a copy that nobody knows. */
function bothWays(): Observer & { readonly seen: () => number } {
  let state: ControllerState | null = null;
  let seen = 0;
  return {
    seen: () => seen,
    input: (cluster, event) => {
      if (state) {
        seen += 1;
        const skipping = control(state, event);
        const asking = control({ ...state }, event);
        expect(asking.effects, `orders after ${event.type}`).toEqual(skipping.effects);
        // A tick that changes nothing gives back what it was given.
        if (asking.effects.length > 0 || skipping.state !== state)
          expect(asking.state, `state after ${event.type}`).toEqual(skipping.state);
      }
      ({ state } = cluster);
    },
  };
}

it("skipping planners leads to the same orders and the same state as asking all of them", () => {
  fc.assert(
    fc.property(fc.nat(1_000_000), fc.integer({ min: 0, max: 2 }), (seed, stalenessMax) => {
      const observer = bothWays();
      const faults = { duplicated: 0.1, late: 0.1, lateMs: 300 };
      const timing = { ...plan.timing, joinMs: 400 };
      const job = { ...plan, stalenessMax, memoryEvery: stalenessMax, steps: 4, timing };
      const cluster = new Cluster({ seed, plan: job, faults, observers: [observer] });
      const random = randomOf(seed, 77);
      for (const role of replicaRoles) for (let i = 0; i < 3; i++) cluster.start(role, `${role}-${i}`);
      for (let i = 0; i < 6 && !cluster.state.ending; i++) {
        const at = cluster.nowMs + random.next() * 900;
        cluster.runUntil(() => cluster.nowMs >= at || cluster.stopped !== null);
        const role = replicaRoles[random.below(replicaRoles.length)] ?? "rollout";
        const id = `${role}-${random.below(3)}`;
        const choice = random.next();
        if (choice < 0.4) cluster.kill(id, random.next() < 0.5);
        else if (choice < 0.6) cluster.stop(id);
        else if (choice < 0.8) cluster.freeze(id, random.next() * 6_000);
        else cluster.failover({ downMs: random.next() * 1_000 });
        cluster.start(role, `${role}-n${i}`);
      }
      cluster.runUntil(() => cluster.stopped !== null, 120_000);
      expect(observer.seen()).toBeGreaterThan(50);
    }),
    { numRuns: 12 },
  );
}, 60_000);

it("a setting that changes is looked at by all whom it concerns: steps that may be sampled earlier now are so in both", () => {
  const groups = { 4: groupsOf(4, 1), 5: groupsOf(5, 0) };
  const ledger = { admitted: 16, trained: 0, aborted: 0, quarantined: 0 };
  const begun = working({ plan: planWith({ steps: 20, stalenessMax: 1 }), patch: { groups, ledger } });
  const resting = control(begun, { type: "controller.tick", atMs: begun.nowMs }).state;
  const from = { from: "op", role: "operator", incarnation: "o1", atMs: begun.nowMs } as const;
  const change = { type: "job.change", ...from, body: { commandId: "c", settings: { stalenessMax: 3 } } } as const;
  const skipping = control(resting, change as never);
  expect(Object.keys(skipping.state.groups)).toEqual(["4", "5", "6", "7"]);
  expect(control({ ...resting }, change as never)).toEqual(skipping);
});

it("time alone wakes few planners of a quiet job, and those that wait for something", () => {
  const wokenIn = (state: ControllerState): readonly string[] =>
    planners.filter(({ timed }) => timed?.(state)).map(({ plan: { name } }) => name);
  const quiet = working({ plan: planWith({ memoryEvery: 0 }) });
  const always = wokenIn({ ...quiet, progress: { ...quiet.progress, isShort: true } });
  expect(always).toEqual([
    ...["planOverdue", "planPulls", "planPublish", "planCheckpoint", "dispatchGroups"],
    ...["planMoves", "planDepartures", "planAssign", "planEnd"],
  ]);
  const body = { role: "rollout", host: "h", pid: 7, engineBuild: "b" } as const;
  const { step, mesh, fleet } = quiet;
  for (const [patch, also] of [
    [{}, ["planWatchdog"]],
    [{ plan: planWith({ memoryEvery: 1 }) }, ["planWatchdog", "planMemory"]],
    [{ waiting: { r9: { incarnation: "i9", body } } }, ["planReadmission", "planWatchdog"]],
    [{ heldBack: { sinceMs: 0, untilMs: 1 } }, ["planWatchdog", "planHeldOutput", "planRoom"]],
    [{ step: { ...step, state: "running" } }, ["planWatchdog", "planStepOutcome"]],
    [{ weights: null }, ["planWatchdog", "planInitialWeights"]],
    [{ mesh: { ...mesh, state: "broken" } }, ["planWatchdog", "planMesh"]],
    [{ mesh: { ...mesh, joinDueAtMs: 9 } }, ["planWatchdog", "planMesh"]],
    [{ fleet: { ...fleet, shortage: { sinceMs: 0, isTold: false } } }, ["planWatchdog", "planShortage"]],
  ] as readonly (readonly [Partial<ControllerState>, readonly string[]])[])
    expect(wokenIn({ ...quiet, ...patch }).filter((name) => !always.includes(name))).toEqual(also);
});
