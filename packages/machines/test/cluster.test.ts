import { imbalanceOf, ledgerOf } from "@muster/machines/controller";
import { describe, expect, it } from "vitest";
import { Cluster } from "./cluster.ts";
import { plan } from "./plans.ts";

function startAll(cluster: Cluster, shape = { policy: 2, rollout: 2, checkpoint: 1 }): void {
  for (const role of ["policy", "rollout", "checkpoint"] as const)
    for (let i = 0; i < shape[role]; i++) cluster.start(role, `${role}-${i}`);
}

function finish(cluster: Cluster): void {
  const done = cluster.runUntil(() => {
    expect(imbalanceOf(ledgerOf(cluster.state)), "ledger").toBe(0);
    return cluster.stopped !== null;
  });
  const tail = cluster.commands.slice(-12).join("\n");
  expect(
    done,
    `stuck in ${cluster.controller.context.phase}, step ${JSON.stringify(cluster.state.step)}, mesh ${JSON.stringify(cluster.state.mesh)}\n${tail}`,
  ).toBe(true);
  expect(cluster.stopped?.outcome, cluster.stopped?.reason).toBe("done");
  const { admitted, trained, pending } = ledgerOf(cluster.state);
  expect({ admitted, trained, pending }).toEqual({ admitted: 6 * 24 * 4, trained: 6 * 24 * 4, pending: 0 });
}

const digestOf = (cluster: Cluster): string => JSON.stringify(cluster.state.weights?.sections);

function quiet(shape?: { policy: number; rollout: number; checkpoint: number }, seed = 1): Cluster {
  const cluster = new Cluster({ seed, plan });
  startAll(cluster, shape);
  finish(cluster);
  return cluster;
}

const expected = digestOf(quiet());

describe("a job of the real machines under virtual time", () => {
  it("trains every step, evaluates, saves and ends", () => {
    const cluster = quiet();
    const kinds = cluster.announced.map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === "step.committed")).toHaveLength(6);
    expect(kinds.filter((kind) => kind === "eval.finished")).toHaveLength(3);
    expect(kinds.filter((kind) => kind === "alarm.raised")).toEqual([]);
    expect(cluster.state.checkpoints.saved?.step).toBe(6);
    expect([...cluster.drops]).toEqual([]);
  });

  it("gives the same weights for 2+2, 3+4 and 5+1 replicas", () => {
    expect(digestOf(quiet({ policy: 3, rollout: 4, checkpoint: 1 }, 2))).toBe(expected);
    expect(digestOf(quiet({ policy: 5, rollout: 2, checkpoint: 2 }, 3))).toBe(expected);
  });

  it("replays its journal to exactly the live state", () => {
    const cluster = quiet();
    expect(JSON.stringify(cluster.replay())).toBe(JSON.stringify(cluster.controller));
  });

  it("lets replicas of both roles join and leave without losing a group", () => {
    const cluster = new Cluster({ seed: 4, plan });
    startAll(cluster);
    cluster.runUntil(() => cluster.state.step.step === 2);
    cluster.start("rollout", "rollout-late");
    cluster.start("policy", "policy-late");
    cluster.runUntil(() => cluster.state.mesh.members.length === 3 && cluster.state.step.step === 3);
    cluster.stop("policy-0");
    cluster.stop("rollout-0");
    finish(cluster);
    expect(digestOf(cluster)).toBe(expected);
    expect(cluster.announced.filter(({ kind }) => kind === "member.left").length).toBeGreaterThanOrEqual(2);
    expect(cluster.announced.filter(({ kind }) => kind === "member.died")).toEqual([]);
  });

  it("survives the loss of every policy replica by training the steps since the checkpoint again", () => {
    const cluster = new Cluster({ seed: 5, plan });
    startAll(cluster);
    cluster.runUntil(() => cluster.state.step.step === 4 && cluster.state.step.state === "running");
    cluster.kill("policy-0");
    cluster.kill("policy-1");
    cluster.start("policy", "policy-2");
    finish(cluster);
    expect(cluster.state.weights?.lineage).toBe(1);
    expect(digestOf(cluster)).toBe(expected);
  });

  it("goes back at once when a pull of the lost lineage is still on its way: the new order replaces it", () => {
    const cluster = new Cluster({ seed: 5, plan });
    startAll(cluster);
    cluster.runUntil(() => cluster.state.step.step === 4);
    cluster.data.arePullsStuck = true;
    cluster.start("policy", "policy-2");
    cluster.runUntil(() => cluster.state.members["policy-2"]?.order?.kind === "weights.pull");
    const orderedMs = cluster.nowMs;
    cluster.runUntil(() => cluster.nowMs > orderedMs + 10);
    cluster.data.arePullsStuck = false;
    cluster.kill("policy-0");
    cluster.kill("policy-1");
    const lostMs = cluster.nowMs;
    cluster.runUntil(() => cluster.state.weights?.lineage === 1);
    expect(cluster.nowMs - lostMs).toBeLessThan(plan.timing.pullMs / 4);
    finish(cluster);
    expect(digestOf(cluster)).toBe(expected);
  });

  it("gives the weights of the new lineage to a rollout that is stuck in a pull of the old one", () => {
    const cluster = new Cluster({ seed: 5, plan });
    startAll(cluster);
    cluster.runUntil(() => cluster.state.step.step === 4 && cluster.state.step.state === "running");
    cluster.data.arePullsStuck = true;
    cluster.runUntil(() => cluster.state.members["rollout-0"]?.order?.kind === "weights.pull");
    const orderedMs = cluster.nowMs;
    cluster.runUntil(() => cluster.nowMs > orderedMs + 10);
    cluster.data.arePullsStuck = false;
    cluster.kill("policy-0");
    cluster.kill("policy-1");
    cluster.start("policy", "policy-2");
    const lostMs = cluster.nowMs;
    cluster.runUntil(() => cluster.state.members["rollout-0"]?.held?.lineage === 1);
    expect(cluster.nowMs - lostMs).toBeLessThan(plan.timing.pullMs / 2);
    finish(cluster);
    expect(digestOf(cluster)).toBe(expected);
  });

  it("gives the last weights to a checkpoint although every policy replica is lost right after the last commit", () => {
    const cluster = new Cluster({ seed: 6, plan: { ...plan, evalPrompts: 0 } });
    startAll(cluster);
    cluster.runUntil(() => cluster.state.step.step === 7);
    cluster.kill("policy-0");
    cluster.kill("policy-1");
    cluster.runUntil(() => cluster.nowMs > 20_000);
    expect(cluster.stopped).toBeNull();
    cluster.start("policy", "policy-2");
    finish(cluster);
    expect(cluster.state.checkpoints.saved?.step).toBe(6);
    expect(digestOf(cluster)).toBe(expected);
  });

  it("lets a replica come back under its old id before anybody noticed that it was gone, also after its vote", () => {
    for (let seed = 1; seed <= 12; seed++) {
      const cluster = new Cluster({ seed, plan });
      startAll(cluster, { policy: 3, rollout: 2, checkpoint: 1 });
      const votersOf = (step: number): string[] =>
        cluster.state.step.step === step ? Object.keys(cluster.state.step.votes) : [];
      cluster.runUntil(() => votersOf(3).length > 0);
      const [voter = ""] = votersOf(3);
      cluster.kill(voter, false);
      cluster.start("policy", voter);
      finish(cluster);
      expect(digestOf(cluster), `seed ${seed}`).toBe(expected);
      expect(cluster.nowMs, `seed ${seed}`).toBeLessThan(plan.timing.stepMs);
    }
  });

  it("tells a replica that was taken for dead, so that it comes back", () => {
    const cluster = new Cluster({ seed: 8, plan: { ...plan, steps: 40 } });
    startAll(cluster, { policy: 2, rollout: 3, checkpoint: 1 });
    cluster.runUntil(() => cluster.state.step.step === 2);
    const before = cluster.state.members["rollout-2"]?.incarnation;
    cluster.freeze("rollout-2", 4_000);
    cluster.runUntil(() => !cluster.state.members["rollout-2"]);
    expect(cluster.runUntil(() => cluster.state.members["rollout-2"] !== undefined, 4_000)).toBe(true);
    expect(cluster.state.members["rollout-2"]?.incarnation).not.toBe(before);
  });

  it("does not wait for ever for a member that beats and does nothing", () => {
    const cluster = new Cluster({ seed: 9, plan });
    startAll(cluster);
    cluster.runUntil(() => cluster.state.step.step === 2);
    cluster.start("policy", "policy-deaf");
    cluster.deafen("policy-deaf");
    finish(cluster);
    expect(digestOf(cluster)).toBe(expected);
    expect(cluster.announced.some(({ kind, body }) => kind === "member.died" && body.id === "policy-deaf")).toBe(true);
  });
});
