/** Removal of older checkpoints, which takes its time on a slow disk. */
import { afterEach, expect, it, vi } from "vitest";
import { checkpointRoleOn } from "../src/index.ts";
import { policyRole, ports, rolloutRole } from "./support/roles.ts";
import { endOf, openJob, type SmallJob } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 60_000 });

let job: SmallJob | undefined;
afterEach(async () => {
  await job?.close();
  job = undefined;
});

it("is not waited for by a checkpoint's report, but by the end of the process", async () => {
  job = await openJob(["checkpoint.every_steps=1", "checkpoint.memory_every=0"]);
  let remove = (): void => {};
  const removing = new Promise<readonly string[]>((resolve) => {
    remove = () => resolve(["an older one could not be removed"]);
  });
  const role = checkpointRoleOn({
    ...ports,
    checkpointStore: async (options) => {
      const store = await ports.checkpointStore(options);
      return {
        ...store,
        save: async (content, signal) => ({ ...(await store.save(content, signal)), cleared: removing }),
      };
    },
  });
  const controller = await job.startController();
  const actor = job.startReplica(role, "checkpoint-0");
  for (const id of ["policy-0", "policy-1"]) job.startReplica(policyRole, id);
  job.startReplica(rolloutRole, "rollout-0");

  expect((await endOf(controller)).outcome).toBe("done");
  expect(job.events("checkpoint.kept").length).toBeGreaterThan(0);
  let hasEnded = false;
  const ended = actor.ended.then(() => {
    hasEnded = true;
  });
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
  expect(hasEnded).toBe(false);
  remove();
  await ended;
});
