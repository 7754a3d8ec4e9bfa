import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { decodeStatus, statusKey } from "@muster/protocol";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Controller, ControllerEnd } from "../src/controller/index.ts";
import type { ReplicaEnd } from "../src/index.ts";
import { digestIn, expectBalanced, heldDigests, plain } from "./support/proofs.ts";
import { digestOfLocalTraining } from "./support/small-config.ts";
import { endOf, endsOf, openJob, type SmallJob, type TestReplica } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

describe("a job of two policy replicas, two rollout replicas and a checkpoint actor", () => {
  let job: SmallJob;
  let controller: Controller;
  let end: ControllerEnd;
  let replicas: readonly TestReplica[];
  let replicaEnds: readonly ReplicaEnd[];

  beforeAll(async () => {
    job = await openJob(["timing.heartbeat_interval=700ms"]);
    controller = await job.startController();
    replicas = job.startTeam({ policy: 2, rollout: 2 });
    end = await endOf(controller);
    replicaEnds = await endsOf(replicas);
  });
  afterAll(() => job.close());

  it("ends when its steps are committed, and everybody leaves", () => {
    expect(end.outcome).toBe("done");
    expect(job.events("step.committed").map(({ body }) => body.step)).toEqual([1, 2, 3]);
    expect(replicaEnds.map(({ outcome }) => outcome)).toEqual(["left", "left", "left", "left", "left"]);
    expect(job.events("alarm.raised")).toEqual([]);
  });

  it("has each replica beat as often as timing.heartbeat_interval of the job says", () => {
    expect(replicas.map(({ beatsMs }) => beatsMs)).toEqual(replicas.map(() => [700]));
  });

  it("accounts for every trajectory", () => {
    expectBalanced(controller.snapshot().context.state);
    const trained = job.events("step.committed").flatMap(({ body }) => body.groups);
    expect(new Set(trained).size).toBe(12);
  });

  it("gets the weights that one process gets which does everything itself", async () => {
    expect(digestIn(controller.snapshot())).toBe(await digestOfLocalTraining(job.config));
  });

  it("has replicas that hold equal bytes of every version", async () => {
    const held = await heldDigests(job);
    const sections = [0, 1, 2, 3].flatMap((version) => [`0.${version} weights`, `0.${version} optimizer`]);
    expect(Object.keys(held).sort()).toEqual(sections.sort());
    for (const digests of Object.values(held)) expect(digests).toHaveLength(1);
    expect(held["0.3 weights"]).toEqual([digestIn(controller.snapshot())]);
  });

  it("keeps a checkpoint of the last version, and removes the groups that it covers", async () => {
    expect(job.events("checkpoint.kept").at(-1)?.body).toMatchObject({ step: 3, version: 3 });
    expect(await readdir(join(job.directory, "checkpoints"))).not.toEqual([]);
    await expect(job.transport.fetch("groups", 1)).rejects.toMatchObject({ code: "MUSTER_ERR_MESSAGE_GONE" });
  });

  it("is the fold of its journal", async () => {
    const replayed = await job.replay();
    expect(plain(replayed.snapshot)).toEqual(plain(controller.snapshot()));
    expect(replayed).toMatchObject({ term: 1, seq: await job.transport.journal().head() });
    expect(replayed.records).toBe(replayed.seq);
  });

  it("announces each fact once, under the id that its record gives it", async () => {
    const ids = job.allEvents().map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const { untold } = await job.replay();
    expect(untold.length).toBeGreaterThan(0);
    // What is said beside the records, such as samples, is not said again.
    const recorded = ids.filter((id) => !id.includes(".aside."));
    expect(recorded.slice(-untold.length)).toEqual(untold.map(({ id }) => id));
  });

  it("leaves a last status of itself", async () => {
    const stored = await job.transport.state().get(statusKey);
    const written = decodeStatus(stored?.value ?? new Uint8Array(), "job");
    expect(written).toMatchObject({ job: job.config.job, phase: "stopped", step: 3, version: 3, members: [] });
  });

  it("stays over: a controller that is started again ends as the last one did and writes nothing", async () => {
    const head = await job.transport.journal().head();
    const again = await job.startController();
    expect(await endOf(again)).toEqual(end);
    expect(await job.transport.journal().head()).toBe(head);
  });

  it("can be the beginning of another job, on the very bytes of its checkpoint", async () => {
    const { path } = job.events("checkpoint.kept").at(-1)?.body ?? { path: "" };
    const next = await openJob([`weights.source=checkpoint:${path}`]);
    try {
      const second = await next.startController();
      next.startTeam({ policy: 2, rollout: 1 });
      expect((await endOf(second)).outcome).toBe("done");
      const [before, after] = [await heldDigests(job), await heldDigests(next)];
      expect(after["0.0 weights"]).toEqual(before["0.3 weights"]);
      expect(after["0.0 optimizer"]).toEqual(before["0.3 optimizer"]);
      for (const digests of Object.values(after)) expect(digests).toHaveLength(1);
      expectBalanced(second.snapshot().context.state);
    } finally {
      await next.close();
    }
  });
});
