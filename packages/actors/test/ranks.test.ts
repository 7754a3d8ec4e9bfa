/** Rollout replicas of several ranks: what comes to each of them, what they acknowledge, and what becomes of a job when one is lost. */
import { Worker } from "node:worker_threads";
import { randomOf } from "@muster/base";
import { planReshard } from "@muster/collectives";
import { type ModelConfig, rankSectionOf, rankTensorsOf } from "@muster/engine/embedded";
import { waitFor } from "@muster/testkit";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type Controller, decodeRecord } from "../src/controller/index.ts";
import { rolloutRoleOn } from "../src/index.ts";
import type { Ports } from "../src/ports.ts";
import { digestIn, expectBalanced, heldDigests } from "./support/proofs.ts";
import { checkpointRole, ports as hostPorts, policyRole, rolloutRole } from "./support/roles.ts";
import { digestOfLocalTraining } from "./support/small-config.ts";
import { endOf, openJob, type SmallJob } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 60_000 });

let job: SmallJob | undefined;
afterEach(async () => {
  vi.restoreAllMocks();
  await job?.close();
  job = undefined;
});

/** Starts everybody but the rollout replicas. */
async function openRanked(
  set: readonly string[] = [],
): Promise<{ readonly job: SmallJob; readonly controller: Controller }> {
  job = await openJob(["rollout.ranks=2", ...set]);
  const controller = await job.startController();
  for (const id of ["policy-0", "policy-1"]) job.startReplica(policyRole, id);
  job.startReplica(checkpointRole, "checkpoint-0");
  return { job, controller };
}

async function expectSameBits({ config }: SmallJob, controller: Controller): Promise<void> {
  expect((await endOf(controller)).outcome).toBe("done");
  expectBalanced(controller.snapshot().context.state);
  expect(digestIn(controller.snapshot())).toBe(await digestOfLocalTraining(config));
}

/** What a replica acknowledged, in order. */
async function heldBy({ transport }: SmallJob, id: string) {
  const held: { readonly version: number; readonly bytes: number; readonly addresses: readonly string[] }[] = [];
  for await (const { seq, data } of transport.journal().read(1))
    for (const event of decodeRecord(seq, data).events) {
      if (event.type === "weights.held" && event.from === id) held.push(event.body);
    }
  return held;
}

describe("the part of a rank", () => {
  it.each(Array.from({ length: 20 }, (_, seed) => seed))(
    "lies where the planner of slices puts it (seed %i)",
    (seed) => {
      const random = randomOf(seed, 1);
      const ranks = 1 + random.below(4);
      const kvHeads = ranks * (1 + random.below(2));
      const heads = kvHeads * (1 + random.below(2));
      const [layers, vocab] = [1 + random.below(4), ranks + random.below(40)];
      const hidden = 4 * heads * (1 + random.below(3));
      const ffn = 4 * ranks * (1 + random.below(9));
      const model: ModelConfig = { vocab, hidden, layers, heads, kvHeads, ffn, maxContext: 8, tied: seed % 2 === 0 };
      const tensors = rankTensorsOf(model);
      const to = { tp: ranks, pp: 1, dp: 1 };
      for (const plan of planReshard(tensors, { tp: 1, pp: 1, dp: 1, align: 1 }, to)) {
        const { bytes, parts } = rankSectionOf(model, { rank: plan.rank, ranks });
        expect(plan.sectionBytes).toBe(bytes);
        expect(plan.slices.map((slice) => [slice.tensor, slice.sourceOffset, slice.targetOffset, slice.bytes])).toEqual(
          parts.map(({ tensor, from, offset, bytes: size }) => [tensor, from, offset, size]),
        );
      }
    },
  );
});

describe("a job whose rollout replicas have two ranks", () => {
  it("gets the weights that one process gets which does everything itself", async () => {
    const { job, controller } = await openRanked();
    for (const id of ["rollout-0", "rollout-1"]) job.startReplica(rolloutRole, id);
    await expectSameBits(job, controller);
    for (const digests of Object.values(await heldDigests(job))) expect(digests).toHaveLength(1);
    const held = await heldBy(job, "rollout-0");
    expect(held.map(({ version }) => version)).toEqual([0, 1, 2, 3]);
    // On one host all read the memory of the trainers, so nobody is sent to it.
    expect(held.flatMap(({ addresses }) => addresses)).toEqual([]);
  });

  it("acknowledges a version when all ranks have their parts, and not before", async () => {
    const asked: number[] = [];
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const pullShards: Ports["pullShards"] = async (options) => {
      asked.push(options.plan.rank);
      if (options.plan.rank === 1 && options.id.version === 1) await released;
      return await hostPorts.pullShards(options);
    };
    const { job, controller } = await openRanked();
    job.startReplica(rolloutRoleOn({ ...hostPorts, pullShards }), "rollout-0");
    await waitFor(() => asked.length === 4, { what: "the second rank to be asked for version 1" });
    expect(asked).toEqual([0, 1, 0, 1]);
    expect((await heldBy(job, "rollout-0")).map(({ version }) => version)).toEqual([0]);
    release();
    await expectSameBits(job, controller);
  });

  it("asks again when one rank's part does not come, and draws nothing from half a version", async () => {
    let failures = 0;
    const pullShards: Ports["pullShards"] = async (options) => {
      if (options.plan.rank === 1 && options.id.version === 2 && failures++ === 0) throw new Error("broken off");
      return await hostPorts.pullShards(options);
    };
    const { job, controller } = await openRanked();
    job.startReplica(rolloutRoleOn({ ...hostPorts, pullShards }), "rollout-0");
    await expectSameBits(job, controller);
    expect(failures).toBe(2);
    expect((await heldBy(job, "rollout-0")).map(({ version }) => version)).toEqual([0, 1, 2, 3]);
  });

  it("goes on when a rank is lost: its replica ends, another one takes over, and the bits are the same", async () => {
    const told = vi.spyOn(Worker.prototype, "postMessage");
    const { job, controller } = await openRanked(["limits.leases_per_rollout=1"]);
    const dying = job.startReplica(rolloutRole, "rollout-0");
    await job.when("step.committed", ({ step }) => step === 1);
    await waitFor(() => told.mock.lastCall?.[0]?.kind === "decode", { what: "a pass of the next step" });
    const ranks = [...new Set(told.mock.contexts)] as Worker[];
    expect(ranks).toHaveLength(2);
    await ranks[1]?.terminate();
    const end = await dying.ended;
    expect(end).toMatchObject({ outcome: "failed", reason: expect.stringContaining("lost a rank (rank 1") });
    job.startReplica(rolloutRole, "rollout-1");
    await job.reportExit("rollout-0", dying.pid);
    await expectSameBits(job, controller);
    expect(job.events("member.died").map(({ body }) => body.id)).toEqual(["rollout-0"]);
  });
});
