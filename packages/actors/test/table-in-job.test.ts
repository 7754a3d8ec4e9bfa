/** Whole jobs in which not everybody's engine has the table of the trainers. */

import { loadCheckpoint } from "@muster/checkpoint";
import { afterEach, expect, it } from "vitest";
import { checkpointRoleOn, type Ports, rolloutRoleOn } from "../src/index.ts";
import { expectBalanced } from "./support/proofs.ts";
import { checkpointRole, policyRole, ports, rolloutRole } from "./support/roles.ts";
import { endOf, openJob, type SmallJob } from "./support/small-job.ts";

let job: SmallJob;
afterEach(() => job.close());

/** The ports of a host whose engine calls the last tensor by another name. */
const other: Ports = {
  ...ports,
  model: (...asked) => {
    const model = ports.model(...asked);
    const tensors = model.tensors.map((tensor, row) =>
      row === model.tensors.length - 1 ? { ...tensor, name: "another.name" } : tensor,
    );
    return { ...model, tensors };
  },
};

it("a sampler of another table takes no weights and says which tensor differs, and the job goes on without it", async () => {
  job = await openJob();
  const controller = await job.startController();
  job.startReplica(rolloutRoleOn(other), "rollout-0");
  for (const id of ["policy-0", "policy-1"]) job.startReplica(policyRole, id);
  await job.when("alarm.raised", ({ detail }) => detail.includes("rollout-0 could not get version 0"));
  job.startReplica(rolloutRole, "rollout-1");
  job.startReplica(checkpointRole, "checkpoint-0");
  expect((await endOf(controller)).outcome).toBe("done");
  expectBalanced(controller.snapshot().context.state);
  const alarms = job.events("alarm.raised").map(({ body }) => body.detail);
  expect(alarms).toContainEqual(
    expect.stringMatching(
      /rollout-0 could not get version 0: version 0 is not for the engine of this replica: tensor "another\.name" is not there in what was published, and f32\[64\] here/,
    ),
  );
});

it("a checkpoint has the table of the trainers, whatever the engine on its host says", async () => {
  job = await openJob();
  const controller = await job.startController();
  for (const id of ["policy-0", "policy-1"]) job.startReplica(policyRole, id);
  job.startReplica(rolloutRole, "rollout-0");
  job.startReplica(checkpointRoleOn(other), "checkpoint-0");
  expect((await endOf(controller)).outcome).toBe("done");
  const kept = job.events("checkpoint.kept").at(-1);
  const { tensors } = await loadCheckpoint(String(kept?.body.path));
  expect(tensors.map(({ name }) => name)).toEqual(ports.model(job.config).tensors.map(({ name }) => name));
  expect(tensors.map(({ name }) => name)).not.toContain("another.name");
});
