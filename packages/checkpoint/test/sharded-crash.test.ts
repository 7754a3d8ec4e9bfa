import { randomOf } from "@muster/base";
import { describe, expect, it, vi } from "vitest";
import { type CheckpointStore, openCheckpointStore, type SavedCheckpoint } from "../src/index.ts";
import { contentOf, expectedOf, loadedOf, never, waiting } from "./content.ts";
import { CrashError, MemoryDisk, type Survival, systemError } from "./disk.ts";

// One to two seconds a test on two free cores.
vi.setConfig({ testTimeout: 30_000 });

const root = "/root";
const oldContent = contentOf(50);
const newContent = contentOf(100);
const of = 2;

const open = (disk: MemoryDisk, keep = 1): Promise<CheckpointStore> =>
  waiting(openCheckpointStore({ root, keep, fs: disk.fs, now: () => new Date(disk.nowMs) }));

/** A disk with one durable checkpoint. */
async function diskWithOld(): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  await disk.fs.makeDirectory(root);
  await disk.fs.syncDirectory("/");
  await (await open(disk)).save(oldContent, never);
  return disk.afterCrash("nothing");
}

/** Two writers and a third that seals, in one order. */
async function make(disk: MemoryDisk): Promise<SavedCheckpoint> {
  for (const index of [1, 2]) await (await open(disk)).saveShards(newContent, { indices: [index], of }, never);
  return (await open(disk)).seal(newContent, of, never);
}

async function callsOfAll(): Promise<number> {
  const disk = await diskWithOld();
  await make(disk);
  return disk.calls.length;
}

/** All that shows is whole. */
async function checkState(disk: MemoryDisk): Promise<number[]> {
  const store = await open(disk);
  const infos = await store.list();
  for (const info of infos)
    expect(loadedOf(await store.load(info.name))).toEqual(expectedOf(info.step === 50 ? oldContent : newContent));
  const steps = infos.map((info) => info.step);
  expect([[50], [100], [100, 50]]).toContainEqual(steps);
  return steps;
}

/** What was begun is finished by others, who leave nothing behind. */
async function checkRecovery(disk: MemoryDisk): Promise<void> {
  await make(disk);
  expect(await checkState(disk)).toEqual([100]);
  disk.nowMs += 2 * 3_600_000;
  await (await open(disk)).sweep();
  const names = new Set([...disk.files().keys()].map((path) => path.split("/")[2]));
  expect([...names].filter((name) => name?.startsWith("."))).toEqual([]);
}

describe("a crash while several write one checkpoint", () => {
  const survivals: [string, (call: number) => Survival][] = [
    ["no unsynced write", () => "nothing"],
    ["all unsynced writes", () => "everything"],
    ...[1, 2].map((seed): [string, () => Survival] => [`a part of them, seed ${seed}`, () => randomOf(2031, seed)]),
  ];

  it.each(survivals)("leaves the old or the new state at every call when %s survived", async (name, survivalOf) => {
    const calls = await callsOfAll();
    expect(calls).toBeGreaterThan(80);
    // Two of the four look at every second call each.
    const isPartial = name.startsWith("a part");
    for (let atCall = Number(name.endsWith("2")); atCall < calls; atCall += isPartial ? 2 : 1) {
      const disk = await diskWithOld();
      disk.fault = { atCall, when: "before", error: new CrashError("power lost") };
      const isSaved = await make(disk).then(
        () => true,
        () => false,
      );
      const survived = disk.afterCrash(survivalOf(atCall));
      const steps = await checkState(survived);
      if (isSaved) expect(steps[0], `call ${atCall}: ${disk.calls.at(-1)}`).toBe(100);
      await checkRecovery(survived);
    }
  });
});

describe("a call that fails while several write one checkpoint", () => {
  it.each(["ENOSPC", "EIO"])("with %s leaves earlier checkpoints, and the next try works", async (code) => {
    const calls = await callsOfAll();
    let failed = 0;
    for (let atCall = 0; atCall < calls; atCall += 2) {
      const disk = await diskWithOld();
      disk.fault = { atCall, when: "before", error: systemError(code) };
      await make(disk).catch((error: unknown) => {
        failed++;
        expect(error).toMatchObject({
          name: expect.stringMatching(/^MUSTER_ERR_CHECKPOINT_(WRITE_FAILED|READ_FAILED|DISK_FULL)$/),
        });
      });
      disk.fault = null;
      await checkState(disk);
      await checkRecovery(disk);
    }
    expect(failed).toBeGreaterThan(20);
  });
});

/** A promise, and what ends it. */
function openLater(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

/** A store that waits before one call, the first for which `isIt` holds, until it may go on. */
async function stopping(disk: MemoryDisk, isIt: (call: string, ...given: unknown[]) => boolean, keep = 9) {
  const [gate, stopped] = [openLater(), openLater()];
  let isOver = false;
  const fs = new Proxy(disk.fs, {
    get: (fs, key) => {
      const call = Reflect.get(fs, key) as (...given: unknown[]) => Promise<unknown>;
      return async (...given: unknown[]) => {
        if (!isOver && isIt(String(key), ...given)) {
          isOver = true;
          stopped.open();
          await gate.opened;
        }
        return call(...given);
      };
    },
  });
  const store = await waiting(openCheckpointStore({ root, keep, fs, now: () => new Date(0) }));
  return { store, stopped: stopped.opened, goOn: gate.open, over: stopped.open };
}

describe("a set that another removes", () => {
  const older = contentOf(90);

  it.each(["before its files go", "midway through its files"])(
    "is sealed whole or not at all, when the sealer stops before its rename and the other %s",
    async (where) => {
      const disk = await diskWithOld();
      let removed = 0;
      const isInSet = (call: string, path: unknown) => call === "removeFile" && String(path).includes("seal-");
      const a = await stopping(disk, (call, from) => call === "rename" && /\/\.seal-[^/]*$/.test(String(from)));
      const b = await stopping(disk, (call, path) =>
        where.startsWith("before")
          ? call === "rename" && /\/\.seal-[^/]*$/.test(String(path))
          : isInSet(call, path) && ++removed === 2,
      );
      await a.store.saveShards(older, { indices: [1, 2], of }, never);
      const sealing = a.store.seal(older, of, never).then(
        ({ name }) => name,
        () => null,
      );
      await a.stopped;
      const writing = b.store.save(newContent, never).finally(b.over);
      await b.stopped;
      a.goOn();
      const reported = await sealing;
      b.goOn();
      await writing;
      const names = (await (await open(disk)).list()).map(({ name }) => name);
      if (reported !== null) expect(names).toContain(reported);
      expect(reported === null).toBe(where.startsWith("midway"));
    },
  );

  it("does not stop others who remove it at the same time", async () => {
    const disk = await diskWithOld();
    const stores = [await open(disk, 9), await open(disk, 9), await open(disk, 9)];
    await stores[0]!.saveShards(older, { indices: [1], of }, never);
    await Promise.all(stores.map((store) => store.saveShards(newContent, { indices: [1, 2], of }, never)));
    const saved = await Promise.all(stores.map((store) => store.save(newContent, never)));
    expect((await Promise.all(saved.map(({ cleared }) => cleared))).flat()).toEqual([]);
    expect([...disk.files().keys()].filter((path) => path.includes("step-00000090"))).toEqual([]);
  });
});

describe("two who write one shard, because one of them was taken for dead", () => {
  it("end with the same checkpoint, wherever the slow one goes on", async () => {
    const calls = await callsOfAll();
    // The first call opens the store.
    for (let stopAt = 1; stopAt < calls; stopAt += 7) {
      const disk = await diskWithOld();
      const quick = await open(disk);
      let left = stopAt;
      const slow = await stopping(disk, () => left-- === 0, 1);
      const late = (async () => {
        await slow.store.saveShards(newContent, { indices: [1, 2], of }, never);
        return slow.store.seal(newContent, of, never);
      })().finally(slow.over);
      late.catch(() => {});
      await slow.stopped;
      await quick.saveShards(newContent, { indices: [2, 1], of }, never);
      const saved = await quick.seal(newContent, of, never);
      slow.goOn();
      await late.catch((error: unknown) =>
        expect(error).toMatchObject({
          code: expect.stringMatching(/^MUSTER_ERR_CHECKPOINT_/),
        }),
      );
      expect(await checkState(disk)).toEqual([100]);
      expect((await (await open(disk)).latest())?.manifestDigest).toBe(saved.manifestDigest);
    }
  });
});
