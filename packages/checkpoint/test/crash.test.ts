import { randomOf } from "@muster/base";
import { describe, expect, it, vi } from "vitest";
import { type CheckpointStore, openCheckpointStore } from "../src/index.ts";
import { contentOf, expectedOf, loadedOf, never, waiting } from "./content.ts";
import { CrashError, MemoryDisk, type Survival, systemError } from "./disk.ts";

// Hundreds of saves each, on a machine that others use, too.
vi.setConfig({ testTimeout: 30_000 });

const root = "/root";
const oldContent = contentOf(50);
const newContent = contentOf(100);

const open = (disk: MemoryDisk, keep: number): Promise<CheckpointStore> =>
  waiting(openCheckpointStore({ root, keep, fs: disk.fs, now: () => new Date(disk.nowMs) }));

/** A disk with one durable checkpoint. */
async function diskWithOld(): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  await disk.fs.makeDirectory(root);
  await disk.fs.syncDirectory("/");
  await (await open(disk, 1)).save(oldContent, never);
  return disk.afterCrash("nothing");
}

/** Number of calls of one undisturbed save, retention included. */
async function callsOfSave(keep: number): Promise<number> {
  const disk = await diskWithOld();
  const store = await open(disk, keep);
  await store.save(newContent, never);
  return disk.calls.length;
}

async function stepsOf(store: CheckpointStore): Promise<number[]> {
  return (await store.list()).map((info) => info.step);
}

/** Everything shown is whole, `latest` on the disk names something whole, and the next save works. */
async function checkState(disk: MemoryDisk, keep: number): Promise<number[]> {
  const store = await open(disk, keep);
  const steps = await stepsOf(store);
  expect([[50], [100], [100, 50]]).toContainEqual(steps);
  for (const info of await store.list()) {
    const expected = info.step === 50 ? oldContent : newContent;
    expect(loadedOf(await store.load(info.name))).toEqual(expectedOf(expected));
  }
  const pointer = disk.files().get(`${root}/latest`);
  const names = (await store.list()).map((info) => `${info.name}\n`);
  expect(names).toContain(new TextDecoder().decode(pointer));
  return steps;
}

async function checkRecovery(disk: MemoryDisk, keep: number): Promise<void> {
  const store = await open(disk, keep);
  await store.save(newContent, never);
  expect((await store.latest())?.step).toBe(100);
  expect(await stepsOf(store)).toEqual(keep === 1 ? [100] : [100, 50]);
  disk.nowMs += 2 * 3_600_000;
  await store.sweep();
  const folders = new Set([...disk.files().keys()].map((path) => path.split("/")[2]));
  expect([...folders].filter((name) => name?.startsWith("."))).toEqual([]);
}

describe("a crash while a checkpoint is saved", () => {
  const survivals: [string, (call: number) => Survival][] = [
    ["no unsynced write", () => "nothing"],
    ["all unsynced writes", () => "everything"],
    ...[1, 2, 3, 4, 5, 6].map((seed): [string, () => Survival] => [
      `a part of them, seed ${seed}`,
      () => randomOf(2029, seed),
    ]),
  ];

  it.each(survivals)("leaves the old or the new state at every call when %s survived", async (_, survivalOf) => {
    for (const keep of [1, 2]) {
      const calls = await callsOfSave(keep);
      expect(calls).toBeGreaterThan(40);
      for (let atCall = 0; atCall < calls; atCall++) {
        for (const when of ["before", "after"] as const) {
          const disk = await diskWithOld();
          disk.fault = { atCall, when, error: new CrashError("power lost") };
          const isSaved = await (await open(disk, keep)).save(newContent, never).then(
            () => true,
            () => false,
          );
          const survived = disk.afterCrash(survivalOf(atCall));
          const steps = await checkState(survived, keep);
          // A save that reported success is there, whatever the crash took.
          if (isSaved) expect(steps[0], `call ${atCall} ${when}: ${disk.calls.at(-1)}`).toBe(100);
          await checkRecovery(survived, keep);
        }
      }
    }
  });

  it("keeps a checkpoint whose save had ended, whatever unsynced writes are lost later", async () => {
    const disk = await diskWithOld();
    await (await open(disk, 2)).save(newContent, never);
    expect(await checkState(disk.afterCrash("nothing"), 2)).toEqual([100, 50]);
  });
});

describe("a call that fails while a checkpoint is saved", () => {
  it.each(["ENOSPC", "EIO", "EDQUOT"])("with %s leaves earlier checkpoints, and the next try works", async (code) => {
    const calls = await callsOfSave(1);
    const outcomes = { failed: 0, warned: 0, unharmed: 0 };
    for (let atCall = 0; atCall < calls; atCall++) {
      const disk = await diskWithOld();
      disk.fault = { atCall, when: "before", error: systemError(code) };
      const store = await open(disk, 1);
      const saved = await store.save(newContent, never).catch((error: unknown) => {
        expect(error).toMatchObject({
          name: expect.stringMatching(/^MUSTER_ERR_CHECKPOINT_(WRITE_FAILED|READ_FAILED|DISK_FULL)$/),
        });
        return null;
      });
      outcomes[saved === null ? "failed" : (await saved.cleared).length > 0 ? "warned" : "unharmed"]++;
      disk.fault = null;
      await checkState(disk, 1);
      await checkRecovery(disk, 1);
    }
    expect(outcomes.failed).toBeGreaterThan(25);
    expect(outcomes.warned).toBeGreaterThan(5);
    expect(outcomes.failed + outcomes.warned + outcomes.unharmed).toBe(calls);
  });
});
