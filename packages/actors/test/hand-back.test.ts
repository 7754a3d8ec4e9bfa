/** What a rollout replica began and did not finish, because it leaves or dies in the middle of a chunk: another one goes on with it. */
import type { Generated, RolloutEngine } from "@muster/engine";
import type { Body, PartialGroup, WorkItem } from "@muster/protocol";
import { waitFor } from "@muster/testkit";
import { afterEach, expect, it, vi } from "vitest";
import { type Controller, decodeRecord } from "../src/controller/index.ts";
import { rolloutRoleOn } from "../src/index.ts";
import type { Ports } from "../src/ports.ts";
import { digestIn, expectBalanced } from "./support/proofs.ts";
import { checkpointRole, ports as hostPorts, policyRole, rolloutRole } from "./support/roles.ts";
import { digestOfLocalTraining } from "./support/small-config.ts";
import { endOf, openJob, type SmallJob } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 60_000 });

let job: SmallJob | undefined;
afterEach(() => job?.close());

function promise(): { readonly settled: Promise<void>; readonly settle: () => void } {
  let settle = (): void => {};
  const settled = new Promise<void>((resolve) => {
    settle = resolve;
  });
  return { settled, settle };
}

const firstTwo = (one: Generated): Generated => ({
  ...one,
  responseIds: one.responseIds.slice(0, 2),
  logprobs: one.logprobs.slice(0, 2),
  finish: "abort",
});

/**
 * Ports to engines that stop for good after two tokens of each response, in the first call for training; `onStopped` is called then. Told
 * to stop, they give what they have.
 */
function portsThatStop(onStopped: () => void): Ports {
  const stopping = (engine: RolloutEngine): RolloutEngine => {
    const told = promise();
    const begun = new Map<string, readonly Generated[]>();
    let isFirst = true;
    const generate: RolloutEngine["generate"] = async (requests, signal) => {
      const rows = await engine.generate(requests, signal);
      if (!isFirst || requests[0]?.sampling.temperature === 0) return rows;
      isFirst = false;
      const cut = rows.map((row) => row.map(firstTwo));
      for (const [i, { requestId }] of requests.entries()) begun.set(requestId, cut[i] ?? []);
      onStopped();
      signal.addEventListener("abort", () => told.settle());
      await told.settled;
      signal.throwIfAborted();
      return cut;
    };
    const own: Partial<RolloutEngine> = {
      generate,
      abort: async () => told.settle(),
      drawn: (id) => begun.get(id) ?? null,
    };
    return new Proxy(engine, {
      get: (target, key) => {
        const value: unknown = Reflect.get(own, key) ?? Reflect.get(target, key);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  };
  return { ...hostPorts, rolloutEngine: async (config) => stopping(await hostPorts.rolloutEngine(config)) };
}

const settings = ["evaluation.prompts=0", "evaluation.every_steps=0", "limits.leases_per_rollout=1"];

/** Starts everybody but the rollout replicas. */
async function openWith(set: readonly string[]): Promise<{ readonly job: SmallJob; readonly controller: Controller }> {
  job = await openJob(set);
  const controller = await job.startController();
  for (const id of ["policy-0", "policy-1"]) job.startReplica(policyRole, id);
  job.startReplica(checkpointRole, "checkpoint-0");
  return { job, controller };
}

/** The job is done, with the bits of one that nobody left. */
async function expectSameBits({ config }: SmallJob, controller: Controller): Promise<void> {
  expect((await endOf(controller)).outcome).toBe("done");
  expectBalanced(controller.snapshot().context.state);
  expect(digestIn(controller.snapshot())).toBe(await digestOfLocalTraining(config));
}

it("what a leaving replica began is gone on with, and in sync mode the bits are the same", async () => {
  const { job, controller } = await openWith(settings);
  let leave = (): void => {};
  const leaving = job.startReplica(rolloutRoleOn(portsThatStop(() => leave())), "rollout-0");
  leave = () => leaving.stop("for a test");
  const goneOn = job.when("member.left", ({ id }) => id === "rollout-0");
  await job.when("groups.released", ({ holder }) => holder === "rollout-0");
  job.startReplica(rolloutRole, "rollout-1");
  await goneOn;
  await expectSameBits(job, controller);

  const handed = (await returnedOf(job)).filter(({ items }) => partialsOf(items).length > 0);
  expect(handed).toHaveLength(1);
  expect(job.events("groups.released")[0]?.body).toMatchObject({ holder: "rollout-0", tokensWasted: 0 });
  expect(job.events("groups.resumed")[0]?.body).toMatchObject({
    holder: "rollout-1",
    items: expect.arrayContaining(job.events("groups.released")[0]?.body.items ?? []),
    tokens: 8,
  });
});

it("what a replica saved before it died is gone on with, and in sync mode the bits are the same", async () => {
  const { job, controller } = await openWith([...settings, "timing.save=20ms"]);
  const stopped = promise();
  const dying = job.startReplica(rolloutRoleOn(portsThatStop(stopped.settle)), "rollout-0");
  await stopped.settled;
  const leased = () => Object.values(controller.snapshot().context.state.leases).flatMap(({ items }) => items);
  await waitFor(() => partialsOf(leased()).length > 0, { what: "what is drawn to be saved" });
  job.startReplica(rolloutRole, "rollout-1");
  await job.when("member.joined", ({ id }) => id === "rollout-1");
  await job.reportExit("rollout-0", dying.pid);
  await expectSameBits(job, controller);

  const released = job.events("groups.released").filter(({ body }) => body.holder === "rollout-0");
  expect(released).toHaveLength(1);
  const resumed = job.events("groups.resumed").map(({ body }) => body);
  // Four responses of two tokens each.
  expect(resumed.find(({ tokens }) => tokens > 0)).toMatchObject({ holder: "rollout-1", tokens: 8 });
});

/** What is stored of items. */
function partialsOf(items: readonly WorkItem[]): readonly PartialGroup[] {
  return items.flatMap((item) => (item.purpose === "train" && item.partial) || []);
}

/** What the journal has of work that was handed back. */
async function returnedOf({ transport }: SmallJob) {
  const found: Body<"groups.returned">[] = [];
  for await (const { seq, data } of transport.journal().read(1))
    for (const event of decodeRecord(seq, data).events) if (event.type === "groups.returned") found.push(event.body);
  return found;
}
