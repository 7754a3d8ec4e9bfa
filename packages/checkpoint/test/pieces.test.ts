/** Digests of files by pieces: what they are, how many are under way, and that checkpoints from before are read. */
import { createHash } from "node:crypto";
import { beforeEach, expect, it } from "vitest";
import { type CheckpointStore, openCheckpointStore } from "../src/index.ts";
import { decodeManifest, encodeManifest } from "../src/manifest.ts";
import { chainDigest, inLanes, PieceMemory, pieceOf, piecesOf } from "../src/pieces.ts";
import { contentOf, expectedOf, loadedOf, never } from "./content.ts";
import { MemoryDisk, systemError } from "./disk.ts";

const root = "/root";
const piece = 4 * 1024 * 1024;
const sizeBytes = 8 * piece + 1_000;

let disk: MemoryDisk;
let path: string;
/** Reads of a file that are under way. */
let reading: { now: number; most: number; fails: boolean };

const open = (): Promise<CheckpointStore> => {
  const fs = {
    ...disk.fs,
    open: async (name: string) => {
      const file = await disk.fs.open(name);
      const read = async (target: Uint8Array, at: number): Promise<number> => {
        reading.most = Math.max(reading.most, ++reading.now);
        await new Promise(setImmediate);
        reading.now--;
        if (reading.fails && at === 2 * piece) throw systemError("EACCES");
        return file.read(target, at);
      };
      return { ...file, read };
    },
  };
  return openCheckpointStore({ root, keep: 9, fs, now: () => new Date(0) });
};

/** A checkpoint of nine pieces, all different. */
async function saveLarge(): Promise<void> {
  const bytes = new Uint8Array(sizeBytes);
  for (let at = 0; at < sizeBytes; at += 997) bytes[at] = at % 251;
  const tensors = [{ name: "w", dtype: "u8", shape: [sizeBytes], offsetBytes: 0, sizeBytes }] as const;
  const sections = [{ name: "weights", digest: "d", bytes }] as const;
  ({ path } = await (await open()).save(contentOf(1, { sections, tensors }), never));
}

const sha256 = (bytes: Uint8Array): Buffer => createHash("sha256").update(bytes).digest();
const fileAt = (name: string): Uint8Array => disk.files().get(`${path}/${name}`) ?? new Uint8Array();

beforeEach(async () => {
  disk = new MemoryDisk();
  reading = { now: 0, most: 0, fails: false };
  await disk.fs.makeDirectory(root);
});

it("the digest of a file is SHA-256 of the SHA-256 of its pieces of 4 MiB, in order", async () => {
  await saveLarge();
  const file = fileAt("model.safetensors");
  const leaves = Array.from({ length: 9 }, (_, at) => sha256(file.subarray(at * piece, (at + 1) * piece)));
  const { files } = decodeManifest(fileAt("manifest.json"));
  expect(files[1]).toEqual({
    name: "model.safetensors",
    bytes: file.length,
    sha256Tree: sha256(Buffer.concat(leaves)).toString("hex"),
  });
});

it.each([0, 5, 8])("a bit that flips in piece %i is seen", async (at) => {
  await saveLarge();
  disk.flipBit(`${path}/model.safetensors`, 8 * (at * piece + 900));
  await expect((await open()).load("step-00000001-v1-t1")).rejects.toThrow(
    /model.safetensors does not have the sha-256/,
  );
});

it("four pieces are under way at once, and none any more when a load fails", async () => {
  await saveLarge();
  reading.most = 0;
  reading.fails = true;
  await expect((await open()).load("step-00000001-v1-t1")).rejects.toThrow(/EACCES/);
  expect(reading).toMatchObject({ now: 0, most: 4 });
});

it("a checkpoint of format 1, with one digest through each file, is read, listed and saved again as it is", async () => {
  const content = contentOf(3);
  const store = await open();
  ({ path } = await store.save(content, never));
  const manifest = decodeManifest(fileAt("manifest.json"));
  if (manifest.format !== 2) throw new Error(`format ${manifest.format}`);
  const { files, ...rest } = manifest;
  const old = files.map(({ name, bytes }) => ({ name, bytes, sha256: sha256(fileAt(name)).toString("hex") }));
  await disk.fs.removeFile(`${path}/manifest.json`);
  const written = await disk.fs.create(`${path}/manifest.json`);
  await written.write(encodeManifest({ ...rest, format: 1, files: old }), 0);
  expect((await (await open()).list()).map(({ format }) => format)).toEqual([1]);
  expect(loadedOf(await store.load("step-00000003-v3-t1"))).toEqual(expectedOf(content));
  expect((await (await open()).save(content, never)).path).toBe(path);
  disk.flipBit(`${path}/optimizer.safetensors`, 901);
  await expect(store.load("step-00000003-v3-t1")).rejects.toThrow(/optimizer.safetensors does not have the sha-256/);
});

it("all files are closed when the closing of one fails, after writing as after reading", async () => {
  const opened: string[] = [];
  let failing = "";
  const closing = <F extends { close(): Promise<void> }>(name: string, file: F): F => {
    opened.push(name);
    const close = async (): Promise<void> => {
      opened.splice(opened.indexOf(name), 1);
      await file.close();
      if (name.endsWith(failing)) throw systemError("EIO");
    };
    return { ...file, close };
  };
  const fs = {
    ...disk.fs,
    create: async (name: string) => closing(name, await disk.fs.create(name)),
    open: async (name: string) => closing(name, await disk.fs.open(name)),
  };
  const store = await openCheckpointStore({ root, keep: 9, fs, now: () => new Date(0) });
  failing = "config.json";
  await expect(store.save(contentOf(1), never)).rejects.toThrow(/EIO/);
  expect(opened).toEqual([]);
  failing = "nothing";
  await store.save(contentOf(1), never);
  failing = "config.json";
  await expect(store.load("step-00000001-v1-t1")).rejects.toThrow(/EIO/);
  expect(opened).toEqual([]);
});

it("memory of a piece is taken again for the next one that it is large enough for", () => {
  const memory = new PieceMemory();
  const { buffer } = memory.at(0, 8);
  expect([memory.at(0, 8).buffer === buffer, memory.at(0, 3).buffer === buffer]).toEqual([true, true]);
  expect([memory.at(0, 3).length, memory.at(1, 8).buffer === buffer]).toEqual([3, false]);
  expect(memory.at(0, 9).length).toBe(9);
});

it("a source is asked for its bytes of a piece, and not at all where it has none", async () => {
  const asked: string[] = [];
  const source = (name: string) => ({
    length: 4,
    copyTo: async (into: Uint8Array, from: number) => void asked.push(`${name} ${from} ${into.length}`),
  });
  const parts = ["a", "b", "c"].map(source);
  await pieceOf(parts, { index: 0, from: 4, bytes: 4 }, () => new Uint8Array(4));
  await pieceOf(parts, { index: 0, from: 3, bytes: 3 }, () => new Uint8Array(3));
  expect(asked).toEqual(["b 0 4", "a 3 1", "b 0 2"]);
});

it("a piece is a view where one buffer has all of it, and else a copy of what the parts have", async () => {
  const [header, body] = [Uint8Array.of(1, 2, 3), Uint8Array.of(4, 5, 6, 7)];
  const none = (): Uint8Array => expect.fail("no copy is needed");
  const inBody = await pieceOf([header, body], { index: 0, from: 4, bytes: 3 }, none);
  expect([inBody, inBody.buffer === body.buffer]).toEqual([Uint8Array.of(5, 6, 7), true]);
  expect(await pieceOf([header, body], { index: 0, from: 3, bytes: 4 }, none)).toEqual(body);
  const memory = new Uint8Array(4);
  const across = await pieceOf([header, body], { index: 0, from: 1, bytes: 4 }, () => memory);
  expect([across, across === memory]).toEqual([Uint8Array.of(2, 3, 4, 5), true]);
});

it("no piece is begun after one has failed, and what has begun is waited for", async () => {
  const begun: number[] = [];
  let isOver = false;
  const work = async ({ index }: { index: number }): Promise<void> => {
    begun.push(index);
    if (index === 0) throw new Error("the first one");
    for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
    isOver = true;
  };
  await expect(inLanes(piecesOf(5 * piece), work, { lanes: 2 })).rejects.toThrow("the first one");
  expect([begun, isOver]).toEqual([[0, 1], true]);
});

it("a file of format 1 is hashed piece after piece", () => {
  expect(chainDigest().lanes).toBe(1);
});
