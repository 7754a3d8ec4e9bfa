import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Controller } from "../src/controller/index.ts";
import { type Ports, policyRoleOn } from "../src/index.ts";
import { comebackDelayMs } from "../src/replica/replica.ts";
import { digestIn, expectBalanced, heldDigests } from "./support/proofs.ts";
import { ports as hostPorts, rolloutRole } from "./support/roles.ts";
import { digestOfLocalTraining, smallConfig } from "./support/small-config.ts";
import { endOf, endsOf, openJob, type SmallJob, type TestReplica } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let expected: string;
let job: SmallJob;
beforeAll(async () => {
  expected = await digestOfLocalTraining(smallConfig("never-written"));
});
afterEach(() => job.close());

/** Waits for the end of the job and expects what it would be without trouble. */
async function expectGoodEnd(controller: Controller): Promise<void> {
  expect((await endOf(controller)).outcome).toBe("done");
  expect(digestIn(controller.snapshot())).toBe(expected);
  expectBalanced(controller.snapshot().context.state);
  for (const digests of Object.values(await heldDigests(job))) expect(digests).toHaveLength(1);
}

/** Starts two policy replicas, `rollouts` rollout replicas and a checkpoint actor; by id. */
function startTeam(rollouts: number): (id: string) => TestReplica {
  const replicas = job.startTeam({ policy: 2, rollout: rollouts });
  return (id) => {
    const replica = replicas.find((candidate) => candidate.id === id);
    if (!replica) throw new Error(`no replica ${id}`);
    return replica;
  };
}

describe("a replica that is told that it is fenced", () => {
  it.each([["policy-1"], ["rollout-0"], ["checkpoint-0"]])("comes back as a new incarnation: %s", async (id) => {
    job = await openJob();
    const controller = await job.startController();
    const replica = startTeam(1)(id);
    await job.when("step.committed", ({ step }) => step === 1);
    await job.fence(id, replica.lives[0] ?? "");

    await expectGoodEnd(controller);
    const joined = job.events("member.joined").filter(({ body }) => body.id === id);
    expect(joined.map(({ body }) => body.incarnation)).toEqual(replica.lives);
    expect(replica.lives).toHaveLength(2);
    expect(job.events("member.died").map(({ body }) => body.incarnation)).toEqual(replica.lives.slice(0, 1));
    expect((await endsOf([replica]))[0]?.outcome).toBe("left");
  });

  it("takes the job back to its checkpoint, in a new lineage, when all who hold the weights are fenced", async () => {
    job = await openJob(["checkpoint.memory_every=0"]);
    const controller = await job.startController();
    const team = startTeam(1);
    await job.when("checkpoint.kept", ({ step }) => step >= 1);
    for (const id of ["policy-0", "policy-1"]) await job.fence(id, team(id).lives[0] ?? "");

    await expectGoodEnd(controller);
    expect(job.events("alarm.raised").map(({ body }) => body.alarm)).toContain("rollback");
    expect(controller.snapshot().context.state.weights).toMatchObject({ lineage: 1, version: 3 });
  });
});

describe("two processes of one name", () => {
  it("evict each other ever more slowly, and the job comes to its end", async () => {
    job = await openJob();
    const controller = await job.startController();
    startTeam(1);
    const twins = ["rollout-1", "rollout-1"].map((id) => job.startReplica(rolloutRole, id));
    await job.when("job.ended");

    const lives = twins.map((twin) => twin.lives.length);
    expect(Math.max(...lives)).toBeGreaterThan(1);
    expect(Math.max(...lives)).toBeLessThan(12);
    expect(digestIn(controller.snapshot())).toBe(expected);
    expectBalanced(controller.snapshot().context.state);
  });

  it("wait 0.25 s before the third life, then twice as long each time, 5 s at the most", () => {
    expect([0, 1, 2, 3, 4, 5, 6, 7, 60].map(comebackDelayMs)).toEqual([
      0, 0, 250, 500, 1_000, 2_000, 4_000, 5_000, 5_000,
    ]);
  });
});

describe("a policy replica whose disk does not answer", () => {
  it("is not waited for: a checkpoint is read again, and the job goes on as it would have", async () => {
    job = await openJob(["timing.checkpoint=4s", "checkpoint.memory_every=0"]);
    const controller = await job.startController();
    let reads = 0;
    let late: AbortSignal | undefined;
    const loadCheckpoint: Ports["loadCheckpoint"] = (path, signal) => {
      late ??= signal;
      return reads++ === 0 ? new Promise(() => {}) : hostPorts.loadCheckpoint(path, signal);
    };
    const policies = ["policy-0", "policy-1"].map((id) =>
      job.startReplica(policyRoleOn({ ...hostPorts, loadCheckpoint }), id),
    );
    job.startTeam({ policy: 0, rollout: 1 });
    await job.when("checkpoint.kept", ({ step }) => step >= 1);
    for (const { id, lives } of policies) await job.fence(id, lives[0] ?? "");

    await expectGoodEnd(controller);
    expect(reads).toBe(2);
    expect(late?.aborted, "the first one ends once the disk answers").toBe(true);
    const alarms = job.events("alarm.raised").map(({ body }) => body.detail);
    expect(alarms).toContainEqual(expect.stringMatching(/reading .* did not end within 4000 ms/));
  });
});

describe("a replica that is asked to stop", () => {
  it.each([["policy-1"], ["rollout-1"]])("leaves, and no lease is lost: %s", async (id) => {
    job = await openJob();
    const controller = await job.startController();
    const replica = startTeam(2)(id);
    await job.when("step.committed", ({ step }) => step === 1);
    replica.stop("maintenance");

    expect(await endsOf([replica])).toEqual([{ outcome: "left", reason: "drained" }]);
    await expectGoodEnd(controller);
    expect(job.events("groups.released")).toEqual([]);
    expect(job.events("member.died")).toEqual([]);
    expect(job.events("member.left")[0]?.body).toMatchObject({ id, incarnation: replica.lives[0] });
  });
});

describe("a policy replica whose live weights are not the candidate that it voted for", () => {
  it("ends with a broken invariant and is no holder, and the others end the job", async () => {
    job = await openJob();
    const controller = await job.startController();
    const [sound] = job.startTeam({ policy: 1, rollout: 1 });
    const faulty = job.startReplica(policyRoleOn(portsThatPromoteWrongly), "policy-1");
    const [end] = await endsOf([faulty]);
    expect(end?.outcome).toBe("failed");
    expect(end?.reason).toMatch(/version 1: section weights has digest/);
    expect(faulty.faults).toEqual([
      expect.objectContaining({ cause: expect.objectContaining({ code: "MUSTER_ERR_PROMOTED_DIFFERS" }) }),
    ]);
    await job.reportExit("policy-1", faulty.pid);
    await expectGoodEnd(controller);
    expect(sound?.lives).toHaveLength(1);
  });
});

/** The ports of this host, on an engine with a bit that flips when a candidate becomes live. */
const portsThatPromoteWrongly: Ports = {
  ...hostPorts,
  async policyEngine(config) {
    const engine = await hostPorts.policyEngine(config);
    const promote = engine.promote.bind(engine);
    engine.promote = () => {
      promote();
      const weights = engine.state().weights as Uint8Array;
      weights[0] = (weights[0] ?? 0) ^ 1;
    };
    return engine;
  },
};
