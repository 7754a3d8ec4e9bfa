/** Notes about shards, and what writers that died have left beside them: which count, and which are written anew. */
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type CheckpointContent, type CheckpointStore, openCheckpointStore } from "../src/index.ts";
import { setNames } from "../src/names.ts";
import { setKey } from "../src/sharded.ts";
import { contentOf, never, waiting } from "./content.ts";
import { MemoryDisk } from "./disk.ts";

const root = "/root";
const of = 2;
const all = { indices: [1, 2], of };
const content = contentOf(7);
const names = setNames(content, setKey(content, of));
const set = `${root}/${names.open}`;
const noteOf = (index: number): string => `${set}/shard-0000${index}-of-00002.json`;

async function storeOf(): Promise<{ readonly disk: MemoryDisk; readonly store: CheckpointStore }> {
  const disk = new MemoryDisk();
  await disk.fs.makeDirectory(root);
  const store = await waiting(openCheckpointStore({ root, keep: 2, fs: disk.fs, now: () => new Date(disk.nowMs) }));
  return { disk, store };
}

async function put(disk: MemoryDisk, path: string, text: string): Promise<void> {
  if (disk.files().has(path)) await disk.fs.removeFile(path);
  const file = await disk.fs.create(path);
  await file.write(new TextEncoder().encode(text), 0);
  await file.close();
}

const textOf = (disk: MemoryDisk, path: string): string => new TextDecoder().decode(disk.files().get(path));
const failsWith = (word: string, message = /./): object =>
  expect.objectContaining({ code: `MUSTER_ERR_CHECKPOINT_${word}`, message: expect.stringMatching(message) });
const lacksTwo = failsWith("SHARDS_MISSING", /"step-00000007-v7-t1" is not whole: of its 2 shards, 2 are not/);

describe("a note about a shard", () => {
  it("counts up to 4 KiB, and is closed when it was read", async () => {
    const { disk, store } = await storeOf();
    await store.saveShards(content, all, never);
    const text = textOf(disk, noteOf(2));
    await put(disk, noteOf(2), text.padEnd(4097));
    await expect(store.seal(content, of, never)).rejects.toEqual(lacksTwo);
    await put(disk, noteOf(2), text.padEnd(4096));
    await store.seal(content, of, never);
    expect(disk.opened).toEqual([]);
  });

  it("names one file or two, whatever it says of them", async () => {
    const { disk, store } = await storeOf();
    await store.saveShards(content, all, never);
    const { files } = JSON.parse(textOf(disk, noteOf(2)));
    for (const wrong of [[], [...files, files[0]]]) {
      const checksum = createHash("sha256").update(JSON.stringify(wrong)).digest("hex");
      await put(disk, noteOf(2), JSON.stringify({ files: wrong, checksum }));
      await expect(store.seal(content, of, never)).rejects.toEqual(lacksTwo);
    }
    const [weights] = content.sections;
    const other: CheckpointContent = contentOf(7, { sections: weights ? [weights] : [] });
    await store.saveShards(other, all, never);
    await expect(store.seal(other, of, never)).resolves.toMatchObject({ name: "step-00000007-v7-t1" });
  });
});

describe("what a loss of power has left under the names of a writer", () => {
  it("is written anew, by who writes shards and by who seals them", async () => {
    const { disk, store } = await storeOf();
    await store.saveShards(content, { indices: [2], of }, never);
    for (const name of ["model-00001-of-00002.safetensors.tmp", "shard-00001-of-00002.json.tmp.new"])
      await put(disk, `${set}/${name}`, "half");
    await store.saveShards(content, { indices: [1], of }, never);
    for (const name of ["config.json.tmp", "manifest.json.tmp"]) await put(disk, `${set}/${name}`, "half");
    await store.seal(content, of, never);
    expect(await store.list()).toHaveLength(1);
  });

  it("makes room on a full disk once it is old enough", async () => {
    const { disk, store } = await storeOf();
    await disk.fs.makeDirectory(`${root}/.tmp-step-00000001-v1-t1`);
    await put(disk, `${root}/.tmp-step-00000001-v1-t1/model.safetensors`, "x".repeat(10_000));
    disk.bytesMax = 10_010;
    disk.nowMs += 3_600_000;
    await expect(store.saveShards(content, all, never)).rejects.toEqual(failsWith("DISK_FULL"));
    await store.saveShards(content, all, never);
  });
});

describe("a set of shards", () => {
  it("is there while somebody has it to seal", async () => {
    const { disk, store } = await storeOf();
    await disk.fs.makeDirectory(`${root}/${names.sealing(1)}`);
    expect(await store.isOpen(content, of)).toBe(true);
  });

  it("is not begun for numbers that no name holds, nor when nobody waits for it any more", async () => {
    const { disk, store } = await storeOf();
    const large = contentOf(7, { step: 100_000_000 });
    await expect(store.saveShards(large, all, never)).rejects.toEqual(failsWith("CONTENT_INVALID", /step is/));
    await expect(store.seal(large, of, never)).rejects.toEqual(failsWith("CONTENT_INVALID", /step is/));
    disk.calls = [];
    await expect(store.saveShards(content, all, AbortSignal.abort())).rejects.toEqual(failsWith("ABORTED"));
    await expect(store.save(content, AbortSignal.abort())).rejects.toEqual(failsWith("ABORTED"));
    expect(disk.calls.filter((call) => call.startsWith("makeDirectory"))).toEqual([]);
  });

  it("has no file of a shard whose writer was told to end before the first was in its place", async () => {
    const probe = await storeOf();
    await probe.store.saveShards(content, { indices: [1], of }, never);
    const commit = probe.disk.calls.findIndex((call) => call.startsWith("rename "));
    for (let at = 2; at < commit; at++) {
      const { disk, store } = await storeOf();
      const abort = new AbortController();
      const push = disk.calls.push.bind(disk.calls);
      disk.calls.push = (...calls) => {
        if (disk.calls.length === at) abort.abort(new Error("deadline"));
        return push(...calls);
      };
      const saving = store.saveShards(content, { indices: [1], of }, abort.signal);
      await expect(saving, `call ${at}`).rejects.toEqual(failsWith("ABORTED"));
      expect([...disk.files().keys()]).toEqual([]);
    }
  });
});
