/** What is left in a checkpoint folder by writers that died. */
import { mkdir, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { waitFor } from "@muster/testkit";
import { afterEach, expect, it, vi } from "vitest";
import { checkpointRole } from "./support/roles.ts";
import { endOf, openJob, type SmallJob } from "./support/small-job.ts";

vi.setConfig({ testTimeout: 60_000 });

let job: SmallJob | undefined;
afterEach(async () => {
  await job?.close();
  job = undefined;
});

it("goes when a checkpoint actor begins, and the job's own shards become checkpoints", async () => {
  job = await openJob(["checkpoint.shards=2", "replicas.checkpoint=2"]);
  const { directory } = job.config.checkpoint;
  // Of a later step than any of this job, so that no newer checkpoint has it removed.
  const left = join(directory, ".set-l0-step-00000900-v900-0123456789abcdef");
  await mkdir(directory);
  await mkdir(left);
  await utimes(left, 1, 1);
  const controller = await job.startController();
  job.startTeam({ policy: 2, rollout: 1 });
  job.startReplica(checkpointRole, "checkpoint-1");
  expect((await endOf(controller)).outcome).toBe("done");
  const names = async () => await readdir(directory);
  await waitFor(async () => (await names()).every((name) => !name.startsWith(".")), {
    what: "a folder without leftovers",
  });
  expect(await names()).toContainEqual(expect.stringMatching(/^step-00000003-/));
  const last = (await names()).find((name) => name.startsWith("step-00000003-")) ?? "";
  expect(await readdir(join(directory, last))).toContain("model-00002-of-00002.safetensors");
});

it("goes also where each actor writes the whole, and what is being written stays", async () => {
  job = await openJob([]);
  const { directory } = job.config.checkpoint;
  const [left, written] = ["00000001", "00000900"].map((step) => join(directory, `.tmp-step-${step}-v1-t1`));
  await mkdir(directory);
  for (const path of [left, written]) {
    await mkdir(`${path}`);
    await writeFile(join(`${path}`, "model.safetensors"), "half of it");
  }
  await utimes(`${left}`, 1, 1);
  const controller = await job.startController();
  job.startTeam({ policy: 2, rollout: 1 });
  job.startReplica(checkpointRole, "checkpoint-1");
  expect((await endOf(controller)).outcome).toBe("done");
  // The job is done with the first durable copy; the other actor may be writing its own just then.
  const hidden = async () => (await readdir(directory)).filter((name) => name.startsWith("."));
  await waitFor(async () => (await hidden()).join() === ".tmp-step-00000900-v1-t1", {
    what: "nothing but what another one writes",
  });
});
