import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomOf } from "@muster/base";
import { openModelFolder, placeDensely } from "@muster/tensors";
import { afterEach, describe, expect, it } from "vitest";
import { type CheckpointContent, type CheckpointStore, openCheckpointStore } from "../src/index.ts";
import { shardedFiles, shardNumbers } from "../src/shard-names.ts";
import { planIndex, planShard, setKey } from "../src/sharded.ts";
import { contentOf, expectedOf, loadedOf, never, waiting } from "./content.ts";
import { MemoryDisk } from "./disk.ts";

const root = "/root";

async function emptyDisk(): Promise<MemoryDisk> {
  const disk = new MemoryDisk();
  await disk.fs.makeDirectory(root);
  return disk;
}

const open = (disk: MemoryDisk, keep = 2): Promise<CheckpointStore> =>
  waiting(openCheckpointStore({ root, keep, fs: disk.fs, now: () => new Date(disk.nowMs) }));

const failsWith = (word: string, message = /./): object =>
  expect.objectContaining({ code: `MUSTER_ERR_CHECKPOINT_${word}`, message: expect.stringMatching(message) });

/** A content with tensors of these sizes in bytes. */
function withTensors(sizes: readonly number[]): CheckpointContent {
  const tensors = placeDensely(sizes.map((size, i) => ({ name: `t${i}`, dtype: "u8" as const, shape: [size] })));
  const bytes = new Uint8Array(sizes.reduce((sum, size) => sum + size, 0)).map((_, i) => i % 251);
  return contentOf(1, { tensors, sections: [{ name: "weights", digest: "d", bytes }] });
}

const sizesOf = (content: CheckpointContent, of: number): number[] =>
  shardNumbers(of).map((i) => planShard(content, i, of)[0]?.parts[1]?.length ?? 0);

describe("how a version is dealt", () => {
  it("gives each shard whole tensors that follow each other, nearly as many bytes as the others", () => {
    expect(sizesOf(withTensors([10, 10, 10, 10, 10, 10]), 3)).toEqual([20, 20, 20]);
    expect(sizesOf(withTensors([1, 1, 1, 90, 1, 1]), 3)).toEqual([3, 90, 2]);
    expect(sizesOf(withTensors([10, 20, 10]), 2), "by the middle of each").toEqual([10, 30]);
    expect(sizesOf(withTensors([1]), 2)).toEqual([0, 1]);
    const random = randomOf(5);
    for (let round = 0; round < 50; round++) {
      const sizes = Array.from({ length: 1 + random.below(20) }, () => random.below(1000));
      const of = 2 + random.below(6);
      const shards = sizesOf(withTensors(sizes), of);
      const total = sizes.reduce((sum, size) => sum + size, 0);
      expect(shards.reduce((sum, size) => sum + size, 0)).toBe(total);
      for (const bytes of shards) expect(bytes).toBeLessThanOrEqual(total / of + Math.max(...sizes));
    }
  });

  it("does not depend on the order in which tensors are listed, nor on the term", () => {
    const content = contentOf(3);
    const turned = { ...content, tensors: [...content.tensors].reverse(), term: 9, groupsWatermark: 77 };
    expect(setKey(turned, 2)).toBe(setKey(content, 2));
    expect(planIndex(turned, 2)).toEqual(planIndex(content, 2));
    expect(planShard(turned, 1, 2)).toEqual(planShard(content, 1, 2));
  });

  it("has another folder for other weights, another lineage and another number of shards", () => {
    const content = contentOf(3);
    const keys = [
      setKey(content, 2),
      setKey(content, 3),
      setKey({ ...content, lineage: 1 }, 2),
      setKey({ ...content, sections: contentOf(4).sections }, 2),
      setKey({ ...content, tensors: content.tensors.slice(1) }, 2),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });

  it("refuses tensors that do not tile the weights", async () => {
    const store = await open(await emptyDisk());
    const content = contentOf(3, { tensors: contentOf(3).tensors.slice(1) });
    await expect(store.saveShards(content, { indices: [1], of: 2 }, never)).rejects.toEqual(
      failsWith("CONTENT_INVALID", /tensors of section weights/),
    );
  });
});

describe("a checkpoint of several writers", () => {
  it("shows nothing before it is sealed, and then every byte and number", async () => {
    const disk = await emptyDisk();
    const writers = [await open(disk), await open(disk), await open(disk)];
    const content = contentOf(7);
    await Promise.all(writers.map((writer, i) => writer.saveShards(content, { indices: [i + 1], of: 3 }, never)));
    expect(await writers[0]!.list()).toEqual([]);
    const saved = await writers[1]!.seal(content, 3, never);
    expect(saved).toMatchObject({ name: "step-00000007-v7-t1", path: `${root}/step-00000007-v7-t1` });
    expect(await saved.cleared).toEqual([]);
    const loaded = await writers[2]!.load(saved.name);
    expect(loadedOf(loaded)).toEqual(expectedOf(content));
    expect(loaded.info).toMatchObject({
      format: 3,
      shards: 3,
      manifestDigest: saved.manifestDigest,
      bytes: saved.bytes,
    });
    const names = [...disk.files().keys()].map((path) => path.slice(root.length + 1));
    const inFolder = [...shardedFiles(3, true), "manifest.json"].map((file) => `${saved.name}/${file}`);
    expect(names.sort()).toEqual([...inFolder, "latest"].sort());
  });

  it("needs no byte of the sections for the seal, and one writer may write several shards", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    const content = contentOf(7);
    await store.saveShards(content, { indices: [2, 1], of: 2 }, never);
    const copyTo = async () => {
      throw new Error("nothing is to be read");
    };
    const sections = content.sections.map((one) => ({ ...one, bytes: { length: one.bytes.length, copyTo } }));
    const { name } = await store.seal({ ...content, sections }, 2, never);
    expect(loadedOf(await store.load(name))).toEqual(expectedOf(content));
  });

  it("goes without an optimizer, with more shards than tensors, and with shards of several pieces", async () => {
    const store = await open(await emptyDisk());
    const size = 9 * 1024 * 1024 + 4;
    const content = withTensors([size, size]);
    await store.saveShards(content, { indices: [1, 2, 3], of: 3 }, never);
    const { name } = await store.seal(content, 3, never);
    const loaded = await store.load(name);
    expect(Buffer.compare(loaded.sections[0]!.bytes, content.sections[0]!.bytes as Uint8Array)).toBe(0);
    expect(loaded.tensors).toEqual(content.tensors);
  });

  it("is sealed once: who comes later gets the one that is there, in a later term too", async () => {
    const disk = await emptyDisk();
    const [a, b] = [await open(disk), await open(disk)];
    const content = contentOf(7);
    await a.saveShards(content, { indices: [1], of: 2 }, never);
    // Another controller goes on with what was begun.
    await b.saveShards({ ...content, term: 2 }, { indices: [1, 2], of: 2 }, never);
    const both = await Promise.allSettled([a.seal(content, 2, never), b.seal({ ...content, term: 2 }, 2, never)]);
    // Who finds that another has taken the set fails, and finds it sealed when it asks again.
    const sealed = both.flatMap((end) => (end.status === "fulfilled" ? end.value : []));
    const again = await b.seal({ ...content, term: 3 }, 2, never);
    expect(sealed.length).toBeGreaterThan(0);
    for (const one of sealed) expect(one).toEqual(again);
    expect(await a.seal(content, 2, never)).toEqual(again);
    expect(await a.list()).toHaveLength(1);
    await a.saveShards(content, { indices: [1], of: 2 }, never);
    expect([...disk.files().keys()].filter((path) => path.includes(".set-"))).toEqual([]);
  });

  it("names the shards that are not there and the setting, and takes them when they come", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    const content = contentOf(7);
    await store.saveShards(content, { indices: [2], of: 3 }, never);
    const missing =
      /of its 3 shards, 1, 3 are not in \/root.*checkpoint\.directory must be one folder.*checkpoint\.shards = 1/;
    await expect(store.seal(content, 3, never)).rejects.toEqual(failsWith("SHARDS_MISSING", missing));
    expect(await store.list()).toEqual([]);
    await store.saveShards(content, { indices: [1, 3], of: 3 }, never);
    await expect(store.seal(content, 3, never)).resolves.toMatchObject({ name: "step-00000007-v7-t1" });
  });

  it("counts a shard that was damaged before the seal as missing, and damage after it is seen", async () => {
    const disk = await emptyDisk();
    const content = contentOf(7);
    const store = await open(disk);
    await store.saveShards(content, { indices: [1, 2], of: 2 }, never);
    const note = [...disk.files().keys()].find((path) => path.endsWith("shard-00002-of-00002.json"));
    disk.flipBit(note!, 77);
    await expect(store.seal(content, 2, never)).rejects.toEqual(failsWith("SHARDS_MISSING", /shards, 2 are not/));
    await store.saveShards(content, { indices: [2], of: 2 }, never);
    const { name } = await store.seal(content, 2, never);
    expect(await store.list()).toHaveLength(1);
    disk.flipBit(`${root}/${name}/model-00002-of-00002.safetensors`, 8 * 20);
    expect(await store.list()).toEqual([]);
    await expect(store.load(name)).rejects.toEqual(failsWith("CORRUPT"));
  });

  it("refuses shards of an ended term, of an older step and of another job", async () => {
    const store = await open(await emptyDisk());
    await store.save(contentOf(10, { term: 3 }), never);
    const shards = { indices: [1], of: 2 };
    await expect(store.saveShards(contentOf(11, { term: 2 }), shards, never)).rejects.toEqual(failsWith("FENCED"));
    await expect(store.saveShards(contentOf(9, { term: 3 }), shards, never)).rejects.toEqual(failsWith("STALE"));
    await expect(store.saveShards(contentOf(11, { term: 3, job: "x" }), shards, never)).rejects.toEqual(
      failsWith("FOREIGN"),
    );
    await expect(store.seal(contentOf(11, { term: 2 }), 2, never)).rejects.toEqual(failsWith("FENCED"));
  });

  it("leaves no set of an older step, and retention treats it as any other", async () => {
    const disk = await emptyDisk();
    const store = await open(disk, 1);
    await store.saveShards(contentOf(5), { indices: [1], of: 2 }, never);
    for (const step of [6, 7]) {
      await store.saveShards(contentOf(step), { indices: [1, 2], of: 2 }, never);
      await store.seal(contentOf(step), 2, never);
    }
    const folders = new Set([...disk.files().keys()].map((path) => path.split("/")[2]));
    expect([...folders].sort()).toEqual(["latest", "step-00000007-v7-t1"]);
  });

  it("leaves no set once a newer one is saved whole, as after a change to one shard, and none of an older lineage", async () => {
    const disk = await emptyDisk();
    const store = await open(disk, 1);
    const sets = () => [
      ...new Set([...disk.files().keys()].flatMap((path) => /\.set-(l\d+-step-\d+)/.exec(path)?.[1] ?? [])),
    ];
    const shards = { indices: [1], of: 2 };
    await store.saveShards(contentOf(5), shards, never);
    await store.saveShards(contentOf(9), shards, never);
    await store.saveShards(contentOf(4, { lineage: 1 }), shards, never);
    // Who writes leaves what others may still seal.
    expect(sets()).toHaveLength(3);
    await store.save(contentOf(8), never);
    expect(sets()).toEqual(["l0-step-00000009", "l1-step-00000004"]);
    await store.save(contentOf(3, { lineage: 1 }), never);
    expect(sets()).toEqual(["l1-step-00000004"]);
  });

  it("is open from its first shard until it is sealed, for whoever has its bytes to keep", async () => {
    const disk = await emptyDisk();
    const [a, b] = [await open(disk), await open(disk)];
    expect(await a.isOpen(contentOf(6), 2)).toBe(false);
    await a.saveShards(contentOf(6), { indices: [1], of: 2 }, never);
    expect([await b.isOpen(contentOf(6), 2), await b.isOpen(contentOf(6), 3)]).toEqual([true, false]);
    await b.saveShards(contentOf(6), { indices: [2], of: 2 }, never);
    await b.seal(contentOf(6), 2, never);
    expect(await a.isOpen(contentOf(6), 2)).toBe(false);
  });

  it("is swept when none was added for longer than the grace, by several at once", async () => {
    const disk = await emptyDisk();
    const stores = [await open(disk), await open(disk)];
    await stores[0]!.saveShards(contentOf(5), { indices: [1, 2], of: 2 }, never);
    disk.nowMs += 3_600_000;
    await stores[0]!.saveShards(contentOf(6), { indices: [1, 2], of: 2 }, never);
    disk.nowMs += 1;
    const swept = await Promise.all(stores.map((store) => store.sweep()));
    expect(swept.flat().every((name) => name.includes("step-00000005"))).toBe(true);
    expect([...disk.files().keys()].filter((path) => path.includes("step-00000005"))).toEqual([]);
    expect(await (await stores[1]!.seal(contentOf(6), 2, never)).cleared).toEqual([]);
  });

  it("reads no byte of older weights to write a shard, unless they may be the same ones", async () => {
    const disk = await emptyDisk();
    const [a, b] = [await open(disk), await open(disk)];
    const shards = { indices: [1, 2], of: 2 };
    await a.saveShards(contentOf(6), shards, never);
    const { name } = await a.seal(contentOf(6), 2, never);
    const readsOf = () =>
      disk.calls.filter((call) => call.startsWith(`read ${root}/${name}`) && call.endsWith(".safetensors"));
    disk.calls = [];
    await b.saveShards(contentOf(7), shards, never);
    expect(readsOf()).toEqual([]);
    await b.saveShards(contentOf(6), { ...shards, indices: [1] }, never);
    expect(readsOf()).not.toEqual([]);
    disk.flipBit(`${root}/${name}/model-00002-of-00002.safetensors`, 8 * 20);
    await b.saveShards(contentOf(6), shards, never);
    await expect(b.seal(contentOf(6), 2, never)).resolves.toMatchObject({ name: `${name}-a2` });
  });

  it("says how much room is missing, and leaves the shards of others", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    await store.saveShards(contentOf(5), { indices: [1], of: 2 }, never);
    const before = [...disk.files().keys()];
    disk.bytesMax = [...disk.files().values()].reduce((sum, { length }) => sum + length, 0) + 10;
    await expect(store.saveShards(contentOf(5), { indices: [2], of: 2 }, never)).rejects.toEqual(
      failsWith("DISK_FULL"),
    );
    expect([...disk.files().keys()]).toEqual(before);
  });

  it("has sets of older versions make room on a full disk, for the next try, and says what a seal needs", async () => {
    const disk = await emptyDisk();
    const store = await open(disk);
    const used = () => [...disk.files().values()].reduce((sum, { length }) => sum + length, 0);
    await store.saveShards(contentOf(5), { indices: [1, 2], of: 2 }, never);
    disk.bytesMax = used() + 10;
    const writing = () => store.saveShards(contentOf(6), { indices: [1, 2], of: 2 }, never);
    await expect(writing()).rejects.toEqual(failsWith("DISK_FULL"));
    await writing();
    disk.bytesMax = used() + 10;
    await expect(store.seal(contentOf(6), 2, never)).rejects.toEqual(failsWith("DISK_FULL", /it needs [1-9]\d+;/));
    disk.bytesMax = Number.MAX_SAFE_INTEGER;
    expect(await (await store.seal(contentOf(6), 2, never)).cleared).toEqual([]);
  });
});

describe("a sharded checkpoint on a real disk", () => {
  const folders: string[] = [];
  afterEach(async () => {
    for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
  });

  it("is a folder that readers of Hugging Face models take, with its index", async () => {
    const folder = await mkdtemp(join(tmpdir(), "muster-sharded-"));
    folders.push(folder);
    const store = await waiting(openCheckpointStore({ root: folder, keep: 1, now: () => new Date(0) }));
    const content = contentOf(7);
    await store.saveShards(content, { indices: [1, 2], of: 2 }, never);
    const { path } = await store.seal(content, 2, never);
    const index = JSON.parse(await readFile(join(path, "model.safetensors.index.json"), "utf8"));
    expect(index).toEqual({
      metadata: { total_size: 40 },
      weight_map: {
        "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
        "model.norm.weight": "model-00002-of-00002.safetensors",
      },
    });
    const model = await openModelFolder(path);
    const norm = new Uint8Array(8);
    await model.read("model.norm.weight", norm);
    expect([...norm]).toEqual([...(content.sections[0]!.bytes as Uint8Array).subarray(32)]);
    await model.close();
  });
});
