/** A rollout replica that leaves in the middle of a chunk hands back what it began, and another one goes on with it. */
import type { RolloutEngine } from "@muster/engine";
import { afterEach, expect, it, vi } from "vitest";
import { hostDoors } from "../src/doors.ts";
import { checkpointRole, decodeRecord, policyRole, rolloutRole, rolloutRoleOn } from "../src/index.ts";
import { digestIn, expectBalanced } from "./support/proofs.ts";
import { digestOfLocalTraining } from "./support/small-config.ts";
import { endOf, openJob, type SmallJob } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 60_000 });

let job: SmallJob | undefined;
afterEach(() => job?.close());

/** An engine that is interrupted in its first call after two tokens of each response, once `leave` was called and it is told to stop. */
function interruptedEngine(engine: RolloutEngine, leave: () => void): RolloutEngine {
  let told = (): void => {};
  const isTold = new Promise<void>((resolve) => {
    told = resolve;
  });
  let isFirst = true;
  const generate: RolloutEngine["generate"] = async (requests, signal) => {
    const rows = await engine.generate(requests, signal);
    if (!isFirst || requests[0]?.sampling.temperature === 0) return rows;
    isFirst = false;
    leave();
    await isTold;
    return rows.map((row) =>
      row.map((one) => ({
        ...one,
        responseIds: one.responseIds.slice(0, 2),
        logprobs: one.logprobs.slice(0, 2),
        finish: "abort" as const,
      })),
    );
  };
  const abort = async (): Promise<void> => told();
  return new Proxy(engine, {
    get: (target, key) => {
      const value: unknown = key === "generate" ? generate : key === "abort" ? abort : Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

it("in sync mode the job ends with the bits of one that nobody left", async () => {
  job = await openJob(["evaluation.prompts=0", "evaluation.every_steps=0", "limits.leases_per_rollout=1"]);
  const controller = await job.startController();
  for (const id of ["policy-0", "policy-1"]) job.startReplica(policyRole, id);
  job.startReplica(checkpointRole, "checkpoint-0");
  let leave = (): void => {};
  const doors = {
    ...hostDoors,
    rolloutEngine: (options: Parameters<typeof hostDoors.rolloutEngine>[0]) =>
      interruptedEngine(hostDoors.rolloutEngine(options), () => leave()),
  };
  const leaving = job.startReplica(rolloutRoleOn(doors), "rollout-0");
  leave = () => leaving.stop("for a test");
  const goneOn = job.when("member.left", ({ id }) => id === "rollout-0");
  await job.when("groups.released", ({ holder }) => holder === "rollout-0");
  job.startReplica(rolloutRole, "rollout-1");
  await goneOn;
  expect((await endOf(controller)).outcome).toBe("done");

  const handed = (await returnedOf(job)).filter(({ partialSeq }) => partialSeq !== undefined);
  expect(handed).toHaveLength(1);
  expect(job.events("groups.released")[0]?.body).toMatchObject({ holder: "rollout-0", tokensWasted: 0 });
  const resumed = job.events("groups.resumed").map(({ body }) => body);
  expect(resumed[0]).toMatchObject({
    holder: "rollout-1",
    items: expect.arrayContaining(job.events("groups.released")[0]?.body.items ?? []),
  });
  expectBalanced(controller.snapshot().context.state);
  expect(digestIn(controller.snapshot())).toBe(await digestOfLocalTraining(job.config));
});

/** What the journal has of work that was handed back. */
async function returnedOf({ transport }: SmallJob) {
  const found: { readonly reason: string; readonly partialSeq?: number | undefined }[] = [];
  for await (const { seq, data } of transport.journal().read(1))
    for (const event of decodeRecord(seq, data).events)
      if (event.type === "groups.returned")
        found.push({ reason: event.body.reason, partialSeq: event.body.partialSeq });
  return found;
}
