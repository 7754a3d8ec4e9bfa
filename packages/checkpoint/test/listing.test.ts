/** What is remembered of checkpoints that were hashed, and until when. */
import { expect, it } from "vitest";
import { openCheckpointStore } from "../src/index.ts";
import { type Listing, listVerified } from "../src/listing.ts";
import { contentOf, never, waiting } from "./content.ts";
import { MemoryDisk } from "./disk.ts";

const root = "/root";

async function storeOf(keep = 9) {
  const disk = new MemoryDisk();
  await disk.fs.makeDirectory(root);
  const store = await waiting(openCheckpointStore({ root, keep, fs: disk.fs, now: () => new Date(0) }));
  const state: Listing = { place: { fs: disk.fs, root }, hashed: new Map() };
  const reads = () => disk.calls.filter((call) => /^read .*step-[^/]*\/[^/]*\.safetensors/.test(call)).length;
  return { disk, store, state, reads };
}

it("what a store has just written is not hashed once more", async () => {
  const { disk, store, reads } = await storeOf();
  await store.save(contentOf(1), never);
  disk.calls = disk.calls.filter((call) => !call.includes("/.tmp-"));
  await store.list();
  expect(reads()).toBe(0);
});

it("the shards of a checkpoint are hashed once as long as they do not change", async () => {
  const { disk, store, state, reads } = await storeOf();
  await store.saveShards(contentOf(1), { indices: [1, 2], of: 2 }, never);
  const { path } = await store.seal(contentOf(1), 2, never);
  disk.calls = [];
  expect(await listVerified(state)).toHaveLength(1);
  const once = reads();
  expect(once).toBeGreaterThan(0);
  expect(await listVerified(state)).toHaveLength(1);
  expect(reads()).toBe(once);
  disk.flipBit(`${path}/model-00001-of-00002.safetensors`, 8 * 20);
  expect(await listVerified(state)).toEqual([]);
});

it("a file that changes after it was hashed, and before the others are, is damage at the next look", async () => {
  const { disk, store, state } = await storeOf();
  const { path } = await store.save(contentOf(1), never);
  let hasChanged = false;
  const fs = {
    ...disk.fs,
    open: async (name: string) => {
      const file = await disk.fs.open(name);
      if (!name.endsWith("model.safetensors")) return file;
      const close = async (): Promise<void> => {
        await file.close();
        if (!hasChanged) disk.flipBit(`${path}/model.safetensors`, 8 * 200);
        hasChanged = true;
      };
      return { ...file, close };
    },
  };
  const looking: Listing = { ...state, place: { fs, root } };
  expect(await listVerified(looking)).toHaveLength(1);
  expect([hasChanged, await listVerified(looking)]).toEqual([true, []]);
});

it("nothing is remembered of a checkpoint that is gone", async () => {
  const { store, state } = await storeOf(1);
  for (const step of [1, 2]) {
    await store.save(contentOf(step), never);
    await listVerified(state);
  }
  expect([...state.hashed.keys()]).toEqual(["step-00000002-v2-t1"]);
});
