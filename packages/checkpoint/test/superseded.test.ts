/** What goes although it is newer than what is pinned: copies that never came to count. And what makes room on a full disk. */
import { describe, expect, it } from "vitest";
import { type CheckpointStore, openCheckpointStore, type SavedCheckpoint } from "../src/index.ts";
import { contentOf, never, waiting } from "./content.ts";
import { MemoryDisk } from "./disk.ts";

const root = "/root";

async function storeOf(keep = 1): Promise<{ readonly disk: MemoryDisk; readonly store: CheckpointStore }> {
  const disk = new MemoryDisk();
  await disk.fs.makeDirectory(root);
  return {
    disk,
    store: await waiting(openCheckpointStore({ root, keep, fs: disk.fs, now: () => new Date(disk.nowMs) })),
  };
}

async function savedSteps(store: CheckpointStore, steps: readonly number[]): Promise<SavedCheckpoint[]> {
  const saved: SavedCheckpoint[] = [];
  for (const step of steps) saved.push(await store.save(contentOf(step), never));
  return saved;
}

const stepsOf = async (store: CheckpointStore) => (await store.list()).map(({ step }) => step);

describe("a superseded copy", () => {
  it("goes with the next save, and what is pinned, newer or not named stays", async () => {
    const { store } = await storeOf();
    const [counting] = await savedSteps(store, [2]);
    store.pin(counting?.name ?? "");
    const [four, six] = await savedSteps(store, [4, 6, 8]);
    store.supersede([four, six].flatMap((copy) => copy ?? []));
    await store.save(contentOf(10), never);
    expect(await stepsOf(store)).toEqual([10, 8, 2]);
  });

  it("stays while it is among the newest that retention leaves", async () => {
    const { store } = await storeOf(3);
    const copies = await savedSteps(store, [2, 4, 6]);
    store.supersede(copies);
    await store.save(contentOf(8), never);
    expect(await stepsOf(store)).toEqual([8, 6, 4]);
  });

  it("is this one copy: another manifest of its name is not meant, and a pinned one stays", async () => {
    const { store } = await storeOf();
    const [two] = await savedSteps(store, [2]);
    store.pin(two?.name ?? "");
    const [four] = await savedSteps(store, [4]);
    store.supersede([{ name: four?.name ?? "", manifestDigest: "of another folder" }, ...(two ? [two] : [])]);
    await store.save(contentOf(6), never);
    expect(await stepsOf(store)).toEqual([6, 4, 2]);
  });
});

describe("a disk without room", () => {
  /** A disk that holds what is there, and half a checkpoint more. */
  async function full(superseded: "named" | "not named") {
    const { disk, store } = await storeOf(3);
    const [counting, copy] = await savedSteps(store, [2, 4]);
    store.pin(counting?.name ?? "");
    if (superseded === "named") store.supersede(copy ? [copy] : []);
    const used = [...disk.files().values()].reduce((sum, { length }) => sum + length, 0);
    disk.bytesMax = used + 200;
    return { disk, store };
  }

  it("is named with what is free and what is needed, and leaves what is there", async () => {
    const { store } = await full("not named");
    const error = await store.save(contentOf(6), never).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "MUSTER_ERR_CHECKPOINT_DISK_FULL",
      retryable: true,
      params: { folder: root, freeBytes: 200, neededBytes: expect.any(Number) },
      message: expect.stringMatching(
        /does not fit on the disk of \/root: 200 bytes are free and it needs \d+;.*free space/,
      ),
    });
    expect((error as { params: { neededBytes: number } }).params.neededBytes).toBeGreaterThan(200);
    expect(await stepsOf(store)).toEqual([4, 2]);
  });

  it("is given room by superseded copies first, also by the newest ones", async () => {
    const { store } = await full("named");
    await store.save(contentOf(6), never);
    expect(await stepsOf(store)).toEqual([6, 2]);
  });

  it("is given room by what is older than the pinned one and not kept, which was to go with the next save", async () => {
    const { disk, store } = await storeOf(1);
    const [first] = await savedSteps(store, [2]);
    const unpin = store.pin(first?.name ?? "");
    const [second] = await savedSteps(store, [4]);
    disk.bytesMax = [...disk.files().values()].reduce((sum, { length }) => sum + length, 200);
    unpin();
    store.pin(second?.name ?? "");
    await store.save(contentOf(6), never);
    expect(await stepsOf(store)).toEqual([6, 4]);
  });

  it("keeps the newest ones that nobody has named yet", async () => {
    const { disk, store } = await storeOf(3);
    await savedSteps(store, [2, 4]);
    disk.bytesMax = [...disk.files().values()].reduce((sum, { length }) => sum + length, 200);
    await expect(store.save(contentOf(6), never)).rejects.toMatchObject({ code: "MUSTER_ERR_CHECKPOINT_DISK_FULL" });
    expect(await stepsOf(store)).toEqual([4, 2]);
  });
});
