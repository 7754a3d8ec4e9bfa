/** Seeded faults against whole jobs with every checker on. A failing seed is in the message; it gives the same run again. */
import { randomOf } from "@muster/base";
import { type ControllerPlan, ledgerOf } from "@muster/machines/controller";
import { replicaRoles } from "@muster/protocol";
import { describe, expect, it } from "vitest";
import { checkers, expectReplayable } from "./checkers.ts";
import { Cluster, type Faults } from "./cluster.ts";
import { plan } from "./plans.ts";

const network: Faults = { duplicated: 0.1, late: 0.1, lateMs: 300 };

interface Shape {
  readonly policy: number;
  readonly rollout: number;
  readonly checkpoint: number;
}

function startAll(cluster: Cluster, shape: Shape): void {
  for (const role of replicaRoles) for (let i = 0; i < shape[role]; i++) cluster.start(role, `${role}-${i}`);
}

/** One thing that goes wrong, drawn at random; killed replicas come back, half of them under their old id. */
function disturb(cluster: Cluster, random: ReturnType<typeof randomOf>, name: string): void {
  const ids = [...cluster.replicas.keys()];
  const victim = ids[random.below(ids.length)] ?? "";
  const role = replicaRoles.find((candidate) => victim.startsWith(candidate)) ?? "rollout";
  const again = random.next() < 0.5 ? victim : `${role}-${name}`;
  const choice = random.next();
  if (choice < 0.35) {
    cluster.kill(victim, random.next() < 0.6);
    cluster.start(role, again);
  } else if (choice < 0.5) {
    cluster.stop(victim);
    cluster.start(role, `${role}-${name}`);
  } else if (choice < 0.65) cluster.freeze(victim, random.next() * 6_000);
  else if (choice < 0.8) cluster.failover({ downMs: random.next() * 1_500 });
  else if (choice < 0.95) cluster.failover({ downMs: random.next() * 1_500, lost: true });
  else cluster.start(role, `${role}-${name}`);
}

function run(seed: number, { job, shape, faults }: { job: ControllerPlan; shape: Shape; faults: Faults }): Cluster {
  const cluster = new Cluster({ seed, plan: job, faults, observers: checkers() });
  const random = randomOf(seed, 4_242);
  startAll(cluster, shape);
  for (let i = 0; i < 8 && !cluster.state.ending; i++) {
    const at = cluster.nowMs + random.next() * 700;
    cluster.runUntil(() => cluster.nowMs >= at || cluster.stopped !== null);
    if (random.next() < 0.1) expectReplayable(cluster);
    if (!cluster.state.ending) disturb(cluster, random, `n${i}`);
  }
  cluster.runUntil(() => cluster.stopped !== null, 300_000);
  return cluster;
}

function expectEnd(cluster: Cluster): void {
  const { state, controller } = cluster;
  const where = `in ${controller.context.phase} at step ${state.step.step} with mesh ${JSON.stringify(state.mesh)}`;
  const tail = cluster.commands.slice(-8).join("; ");
  expect(cluster.stopped?.outcome, `stuck ${where}: ${tail}`).toBe("done");
  const { trained, pending, admitted } = ledgerOf(state);
  const all = state.plan.steps * state.plan.groupsPerStep * state.plan.groupSize;
  expect({ trained, pending, admitted }).toEqual({ trained: all, pending: 0, admitted: all });
  expectReplayable(cluster);
}

/** Runs many seeds; the first that fails says which it was. */
function overSeeds(count: number, body: (seed: number) => void): void {
  for (let seed = 1; seed <= count; seed++)
    try {
      body(seed);
    } catch (error) {
      throw new Error(`seed ${seed}`, { cause: error });
    }
}

const shape: Shape = { policy: 3, rollout: 3, checkpoint: 1 };
const digestOf = (cluster: Cluster): string => JSON.stringify(cluster.state.weights?.sections);
const small: ControllerPlan = { ...plan, groupsPerStep: 12, evalPrompts: 70 };
const none: Faults = { duplicated: 0, late: 0, lateMs: 0 };

function quiet(job: ControllerPlan): string {
  const cluster = new Cluster({ seed: 1, plan: job, observers: checkers() });
  startAll(cluster, shape);
  cluster.runUntil(() => cluster.stopped !== null);
  expectEnd(cluster);
  return digestOf(cluster);
}

describe("a sync job", () => {
  it("ends with the weights of a quiet run, whatever is killed, stopped, frozen or replaced", {
    timeout: 60_000,
  }, () => {
    const expected = quiet(small);
    overSeeds(60, (seed) => {
      const cluster = run(seed, { job: small, shape, faults: none });
      expectEnd(cluster);
      expect(digestOf(cluster)).toBe(expected);
    });
  });

  it("bears reports that come twice, late and out of order", { timeout: 60_000 }, () => {
    const expected = quiet(small);
    overSeeds(60, (seed) => {
      const cluster = run(seed + 10_000, { job: small, shape, faults: network });
      expectEnd(cluster);
      expect(digestOf(cluster)).toBe(expected);
    });
  });
});

describe("an async job", () => {
  const job = { ...small, stalenessMax: 2 };

  it("never trains a group older than its bound, and loses none", { timeout: 60_000 }, () => {
    overSeeds(60, (seed) => expectEnd(run(seed + 20_000, { job, shape, faults: network })));
  });
});
