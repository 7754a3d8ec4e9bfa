/** A job goes on from a checkpoint only with the prompts and samples that would have come next. */
import { createMemoryBroker } from "@muster/transport/internal";
import { expect, it } from "vitest";
import { cursorFlaw, cursorOf } from "../src/checkpoint/cursor.ts";
import { startController } from "../src/controller/index.ts";
import { lostCheckpoint } from "../src/controller/lost-checkpoint.ts";
import { clock, processesOn } from "./support/environment.ts";
import { smallConfig } from "./support/small-config.ts";

const config = smallConfig("cursor");

it("says which prompt comes next, and all that random streams depend on", () => {
  const { groupsPerStep, groupSize } = config.batch;
  const cursor = cursorOf(config, 7);
  expect(cursor).toEqual({
    ...{ seed: config.seed, nextStep: 8, nextPrompt: 7 * groupsPerStep },
    ...{ groupsPerStep, groupSize, data: config.task.name },
  });
  expect(cursorFlaw(cursor, config)).toBeNull();
  expect(cursorFlaw(undefined, config)).toBeNull();
});

it("counts the prompts of steps with other groups as they were, and is still of the same job", () => {
  const { groupsPerStep } = config.batch;
  const sizes = [{ fromStep: 3, groupsPerStep: 7 }];
  const cursor = cursorOf(config, 5, sizes);
  expect(cursor).toMatchObject({ nextStep: 6, nextPrompt: 2 * groupsPerStep + 3 * 7, groupsPerStep, sizes });
  expect(cursorFlaw(cursor, config)).toBeNull();
});

it("gives a job whose store is lost the sizes of steps that its checkpoint names", async () => {
  const ledger = { trained: 1, aborted: 0, quarantined: 0 };
  const found = { step: 5, version: 5, lineage: 0, path: "/c/step-00000005-v5-t1", ledger };
  const from = (sizes?: { fromStep: number; groupsPerStep: number }[]) =>
    lostCheckpoint(config, {
      newestCheckpoint: async () => "step-00000005-v5-t1",
      restoreLost: async () => ({ found, term: 1, cursor: cursorOf(config, 5, sizes) }),
    });
  const sizes = [{ fromStep: 3, groupsPerStep: 7 }];
  expect((await from(sizes))?.found).toEqual({ ...found, sizes });
  expect((await from())?.found).toEqual(found);
});

it("names each key that would bring other prompts or samples, with both values", () => {
  const cursor = cursorOf(config, 7);
  const batch = { ...config.batch, groupsPerStep: 99 };
  expect(cursorFlaw(cursor, { ...config, seed: 12_345, batch })).toBe(
    `job.seed was ${config.seed} and is 12345, batch.groups_per_step was ${config.batch.groupsPerStep} and is 99`,
  );
  const prompts = { digest: "other" } as typeof config.prompts;
  expect(cursorFlaw(cursor, { ...config, ...(prompts ? { prompts } : {}) })).toBe(
    `task.name or the rows of its prompts was ${config.task.name} and is other`,
  );
});

it("a job whose store is lost is refused with another seed than that of its checkpoint, and nothing is written", async () => {
  const broker = createMemoryBroker({ job: config.job, clock });
  const { environment } = processesOn(broker)();
  const path = "/c/step-00000004-v3-t5";
  const found = { step: 4, version: 3, lineage: 2, path, ledger: { trained: 1, aborted: 0, quarantined: 0 } };
  const cursor = { ...cursorOf(config, 4), seed: 99 };
  const begin = startController({
    ...{ config, dataKey: new Uint8Array(32), environment },
    newestCheckpoint: async () => "step-00000004-v3-t5",
    restoreLost: async () => ({ found, term: 5, cursor }),
  });
  await expect(begin).rejects.toThrow(`job.seed was 99 and is ${config.seed}; use the job file`);
  const watcher = broker.connect("watcher.w.w1");
  expect((await watcher.usage("journal")).lastSeq).toBe(0);
});
