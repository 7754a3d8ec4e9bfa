import { appendFile, mkdtemp, rm, truncate } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Random, randomOf, type StridedRows } from "@muster/base";
import { placeDensely } from "@muster/tensors";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  type CheckpointContent,
  type CheckpointFs,
  loadCheckpointParts,
  openCheckpointStore,
  type ReadableFile,
} from "../src/index.ts";
import { nodeFs } from "../src/internal.ts";
import { contentOf, never } from "./content.ts";

const MiB = 2 ** 20;

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "muster-parts-"));
});
afterEach(() => rm(root, { recursive: true }));

/** A checkpoint of tensors of these sizes in bytes, written by so many writers. @returns Its folder. */
async function saved(sizes: readonly number[], { of, optimizer = 0 }: { of: number; optimizer?: number }) {
  const tensors = placeDensely(sizes.map((size, i) => ({ name: `t${i}`, dtype: "u8" as const, shape: [size] })));
  const weights = bytesOf(sizes.reduce((sum, size) => sum + size, 0));
  const sections: CheckpointContent["sections"] = [
    { name: "weights", digest: "w", bytes: weights },
    ...(optimizer > 0 ? [{ name: "optimizer" as const, digest: "o", bytes: bytesOf(optimizer) }] : []),
  ];
  const content = contentOf(1, { tensors, sections });
  const store = await openCheckpointStore({ root, keep: 1, now: () => new Date(0) });
  if (of === 1) return { path: (await store.save(content, never)).path, weights };
  await store.saveShards(content, { indices: Array.from({ length: of }, (_, i) => i + 1), of }, never);
  return { path: (await store.seal(content, of, never)).path, weights };
}

function bytesOf(length: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(length / 4));
  for (let i = 0; i < words.length; i++) words[i] = Math.imul(i + 1, 0x9e3779b1);
  return new Uint8Array(words.buffer, 0, length);
}

/** A disk that counts what is read, and fails where it is told to. */
class CountingDisk {
  /** By name of the file. */
  readonly read = new Map<string, number>();
  failAt = Number.POSITIVE_INFINITY;
  calls = 0;
  arrayBuffersMax = 0;

  readonly fs: CheckpointFs = {
    ...nodeFs,
    open: async (path) => {
      const file = await nodeFs.open(path);
      const name = path.slice(path.lastIndexOf("/") + 1);
      const read: ReadableFile["read"] = async (target, at) => {
        this.calls += 1;
        if (this.calls >= this.failAt) throw Object.assign(new Error("EIO: injected"), { code: "EIO" });
        const bytes = await file.read(target, at);
        this.read.set(name, (this.read.get(name) ?? 0) + bytes);
        this.arrayBuffersMax = Math.max(this.arrayBuffersMax, process.memoryUsage().arrayBuffers);
        return bytes;
      };
      return { stat: file.stat, read, close: () => file.close() };
    },
  };

  /** Of all files that hold sections. */
  get ofSections(): number {
    return [...this.read].reduce((sum, [name, bytes]) => sum + (name.endsWith(".safetensors") ? bytes : 0), 0);
  }
}

/** The naive way: the whole in memory, and each row copied. */
function cutNaively(rows: readonly StridedRows[], whole: Uint8Array, into: Uint8Array): Uint8Array {
  for (const { sourceOffset, sourceStride, targetOffset, targetStride, bytes, count } of rows)
    for (let row = 0; row < count; row++)
      for (let at = 0; at < bytes; at++)
        into[targetOffset + row * targetStride + at] = whole[sourceOffset + row * sourceStride + at] ?? 0;
  return into;
}

/** Some rows of a section of this size, in its order, and the room that they need. */
function drawRows(random: Random, size: number): { readonly rows: StridedRows[]; readonly room: number } {
  const rows: StridedRows[] = [];
  let [from, room] = [random.below(size / 4), 0];
  while (rows.length < 12) {
    const bytes = random.below(3) === 0 ? random.below(size / 3) : random.below(64);
    const sourceStride = bytes + random.below(2) * random.below(40_000);
    const targetStride = bytes + random.below(2) * random.below(9);
    const count = Math.min(random.below(5), Math.floor((size - from) / Math.max(1, sourceStride)));
    rows.push({ sourceOffset: from, sourceStride, targetOffset: room, targetStride, bytes, count });
    from = Math.min(size, from + count * sourceStride + random.below(2) * random.below(30_000));
    room += count * targetStride + random.below(2) * 64;
  }
  return { rows, room };
}

describe("parts of a checkpoint", () => {
  it.each(Array.from({ length: 24 }, (_, seed) => seed))("are what cutting the whole gives (seed %i)", async (seed) => {
    const random = randomOf(seed, 4);
    const sizes = Array.from({ length: 1 + random.below(6) }, () => 1 + random.below(9) ** 7);
    const { path, weights } = await saved(sizes, { of: 1 + random.below(4) });
    const { rows, room } = drawRows(random, weights.length);
    const into = new Uint8Array(room);
    const { bytes, info } = await loadCheckpointParts(path, () => [{ section: "weights", rows, into }]);
    expect(Buffer.compare(into, cutNaively(rows, weights, new Uint8Array(room)))).toBe(0);
    expect([bytes, info.step]).toEqual([room, 1]);
  });

  it.each([1, 3])(
    "are all that is read of %i files, and all that memory is needed for beside four portions",
    async (of) => {
      const { path, weights } = await saved([40 * MiB, 8 * MiB, 16 * MiB], { of, optimizer: 24 * MiB });
      const disk = new CountingDisk();
      const before = process.memoryUsage().arrayBuffers;
      const part = { sourceStride: 6 * MiB, targetOffset: 0, targetStride: 6 * MiB, bytes: 6 * MiB, count: 1 };
      const weightsInto = new Uint8Array(6 * MiB);
      const optimizerInto = new Uint8Array(3 * MiB);
      await loadCheckpointParts(
        path,
        () => [
          { section: "weights", rows: [{ ...part, sourceOffset: 37 * MiB }], into: weightsInto },
          { section: "optimizer", rows: [{ ...part, sourceOffset: 7 * MiB, bytes: 3 * MiB }], into: optimizerInto },
        ],
        { fs: disk.fs },
      );
      // Eight bytes of each file say where its data begins.
      expect(disk.ofSections).toBe(9 * MiB + 8 * 2 * of);
      expect(disk.arrayBuffersMax - before).toBeLessThan(9 * MiB + 17 * MiB);
      expect(Buffer.compare(weightsInto, weights.subarray(37 * MiB, 43 * MiB))).toBe(0);
    },
  );

  it("of a matrix that is cut by columns are read without what lies between long rows, and with it between short ones", async () => {
    const { path } = await saved([4 * MiB], { of: 1 });
    const bytesFor = async (bytes: number, sourceStride: number): Promise<{ read: number; calls: number }> => {
      const count = (4 * MiB) / sourceStride;
      const rows = [{ sourceOffset: 0, sourceStride, targetOffset: 0, targetStride: bytes, bytes, count }];
      const disk = new CountingDisk();
      const into = new Uint8Array(bytes * count);
      await loadCheckpointParts(path, () => [{ section: "weights", rows, into }], { fs: disk.fs });
      return { read: disk.ofSections - 8, calls: disk.calls };
    };
    expect((await bytesFor(32_768, 131_072)).read).toBe(MiB);
    const short = await bytesFor(1024, 8192);
    expect(short.read).toBe(4 * MiB - 7168);
    expect(short.calls).toBeLessThan(8);
  });

  it("are read at once where they touch, or 16 KiB or less lie between, up to 4 MiB in all", async () => {
    const { path } = await saved([5 * MiB], { of: 1 });
    const row = (sourceOffset: number, bytes: number, targetOffset: number): StridedRows => ({
      ...{ sourceOffset, sourceStride: 0, targetOffset, targetStride: 0, bytes, count: 1 },
    });
    /** Reads of the file, without the one that finds out where its data begins. */
    const callsFor = async (...rows: readonly StridedRows[]): Promise<number> => {
      const disk = new CountingDisk();
      const into = new Uint8Array(5 * MiB);
      await loadCheckpointParts(path, () => [{ section: "weights", rows, into }], { fs: disk.fs });
      return disk.calls - 2;
    };
    const gap = 16 * 1024;
    expect(await callsFor(row(0, 100, 0), row(100, 100, 300))).toBe(1);
    expect(await callsFor(row(0, 100, 0), row(100 + gap, 100, 100))).toBe(1);
    expect(await callsFor(row(0, 100, 0), row(101 + gap, 100, 100))).toBe(2);
    expect(await callsFor(row(100, 100, 0), row(0, 100, 100))).toBe(2);
    expect(await callsFor(row(0, 100, 0), row(200, 4 * MiB - 200, 100))).toBe(1);
    expect(await callsFor(row(0, 100, 0), row(200, 4 * MiB - 199, 100))).toBe(2);
    expect(await callsFor(row(0, 4 * MiB + 1, 0))).toBe(2);
  });

  it("are read four at a time, and into no less room than they need", async () => {
    const { path } = await saved([MiB], { of: 1 });
    let [active, most] = [0, 0];
    const fs: CheckpointFs = {
      ...nodeFs,
      open: async (opened) => {
        const file = await nodeFs.open(opened);
        const read: ReadableFile["read"] = async (target, at) => {
          most = Math.max(most, ++active);
          const bytes = await file.read(target, at);
          active--;
          return bytes;
        };
        return { stat: file.stat, read, close: () => file.close() };
      },
    };
    const rows = [{ sourceOffset: 0, sourceStride: 60_000, targetOffset: 0, targetStride: 10, bytes: 10, count: 12 }];
    const reading = (room: number) =>
      loadCheckpointParts(path, () => [{ section: "weights", rows, into: new Uint8Array(room) }], { fs });
    expect((await reading(120)).bytes).toBe(120);
    expect(most).toBe(4);
    await expect(reading(119)).rejects.toThrow(/a part has room for its rows/);
  });

  it("are refused when a file is shorter or longer than it was, or the disk fails, and no read is left under way", async () => {
    const { path } = await saved([6 * MiB, 6 * MiB], { of: 2 });
    const rows = [{ sourceOffset: 0, sourceStride: 0, targetOffset: 0, targetStride: 0, bytes: 12 * MiB, count: 1 }];
    const into = new Uint8Array(12 * MiB);
    const disk = new CountingDisk();
    const reading = () => loadCheckpointParts(path, () => [{ section: "weights", rows, into }], { fs: disk.fs });
    const corrupt = { code: "MUSTER_ERR_CHECKPOINT_CORRUPT" };
    disk.failAt = 4;
    await expect(reading()).rejects.toMatchObject(corrupt);
    const calls = disk.calls;
    await new Promise((resolve) => setImmediate(resolve));
    expect(disk.calls).toBe(calls);
    disk.failAt = Number.POSITIVE_INFINITY;
    await reading();
    const [file] = [...disk.read.keys()].filter((name) => name.startsWith("model-"));
    await appendFile(join(path, String(file)), "x");
    await expect(reading()).rejects.toMatchObject(corrupt);
    await truncate(join(path, String(file)), 100);
    await expect(reading()).rejects.toMatchObject(corrupt);
  });

  it("are refused beyond the end of a section, or of one that is not there", async () => {
    const { path } = await saved([100], { of: 1 });
    const rows = [{ sourceOffset: 90, sourceStride: 0, targetOffset: 0, targetStride: 0, bytes: 11, count: 1 }];
    const of = (section: "weights" | "optimizer") =>
      loadCheckpointParts(path, () => [{ section, rows, into: new Uint8Array(11) }]);
    await expect(of("weights")).rejects.toThrow(/section weights has 100 bytes, and 101 are wanted/);
    await expect(of("optimizer")).rejects.toThrow(/section optimizer has 0 bytes, and 101 are wanted/);
  });

  it("are not read when nothing of the checkpoint is wanted, and no more once nobody waits", async () => {
    const { path } = await saved([100], { of: 1 });
    const disk = new CountingDisk();
    const refused = new Error("another one");
    const nothing = () => {
      throw refused;
    };
    await expect(loadCheckpointParts(path, nothing, { fs: disk.fs })).rejects.toMatchObject({ cause: refused });
    expect(disk.ofSections).toBe(0);
    const rows = [{ sourceOffset: 0, sourceStride: 0, targetOffset: 0, targetStride: 0, bytes: 100, count: 1 }];
    const part = { section: "weights", rows, into: new Uint8Array(100) } as const;
    const signal = AbortSignal.abort(new Error("given up"));
    await expect(loadCheckpointParts(path, () => [part], { fs: disk.fs, signal })).rejects.toThrow("given up");
    expect(disk.ofSections).toBe(8);
  });
});
