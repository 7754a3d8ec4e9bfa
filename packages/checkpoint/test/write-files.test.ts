/** Files of many windows: what is found wherever it happens, and how much is under way at once. */
import { createHash } from "node:crypto";
import { beforeEach, expect, it } from "vitest";
import type { ByteSource, PlannedFile } from "../src/content.ts";
import type { CheckpointFs, WritableFile } from "../src/files.ts";
import { writeFiles } from "../src/write-files.ts";
import { never } from "./content.ts";
import { MemoryDisk, systemError } from "./disk.ts";

const folder = "/root";
const piece = 4 * 1024 * 1024;
/** Four windows, of which the last one has a piece and a half. */
const sizeBytes = 13 * piece + piece / 2;
const lastPiece = 13;

const bytes = new Uint8Array(sizeBytes);
for (let at = 0; at < sizeBytes; at += 997) bytes[at] = at % 251;
const plans: PlannedFile<string>[] = [
  { name: "small", parts: [new Uint8Array([1, 2, 3])] },
  { name: "large", parts: [bytes.subarray(0, 1_000), bytes.subarray(1_000)] },
];

let disk: MemoryDisk;

beforeEach(async () => {
  disk = new MemoryDisk();
  await disk.fs.makeDirectory(folder);
});

const save = (fs: CheckpointFs = disk.fs, signal = never) => writeFiles(plans, { fs, folder, signal });

/** The disk with other files to write. */
const writing = (change: (file: WritableFile, path: string) => WritableFile): CheckpointFs => ({
  ...disk.fs,
  create: async (path) => change(await disk.fs.create(path), path),
});

const sha256 = (data: Uint8Array): Buffer => createHash("sha256").update(data).digest();

it("writes files of any size, flushed, and says size and digest of each", async () => {
  const leaves = Array.from({ length: lastPiece + 1 }, (_, i) => sha256(bytes.subarray(i * piece, (i + 1) * piece)));
  expect(await save()).toEqual([
    { name: "small", bytes: 3, sha256Tree: sha256(sha256(Uint8Array.of(1, 2, 3))).toString("hex") },
    { name: "large", bytes: sizeBytes, sha256Tree: sha256(Buffer.concat(leaves)).toString("hex") },
  ]);
  await disk.fs.syncDirectory(folder);
  await disk.fs.syncDirectory("/");
  expect(Buffer.compare(disk.afterCrash("nothing").files().get(`${folder}/large`) ?? new Uint8Array(), bytes)).toBe(0);
  expect(disk.opened).toEqual([]);
});

it.each([0, 3, 4, 11, lastPiece])(
  "other bytes in piece %i are found, and nothing uses a file any more",
  async (wrong) => {
    const lying = writing((file, path) => ({
      ...file,
      async write(content, at) {
        await file.write(content, at);
        if (at === wrong * piece && path.endsWith("large")) disk.flipBit(path, 8 * (at + content.length - 1));
      },
    }));
    await expect(save(lying)).rejects.toThrow(
      `large was read back with other bytes than were written, from byte ${wrong * piece} on`,
    );
    expect(disk.opened).toEqual([]);
  },
);

it("a file that lost its end is found", async () => {
  const cut = writing((file, path) => ({
    ...file,
    write: (content, at) => file.write(path.endsWith("large") && at > 0 ? content.subarray(0, 9) : content, at),
  }));
  await expect(save(cut)).rejects.toThrow(/became shorter|other bytes than were written/);
  expect(disk.opened).toEqual([]);
});

it.each([
  ...(["create", "open"] as const).map((call) => [call, 1] as const),
  ...[1, 6, 14].flatMap((nth) => [["write", nth] as const, ["read", nth] as const]),
  ...[1, 3, 4].map((nth) => ["sync", nth] as const),
  ...[1, 2].map((nth) => ["close", nth] as const),
])("when %s number %i of a large file fails, that is what it says, and no file stays open", async (call, nth) => {
  const push = disk.calls.push.bind(disk.calls);
  let seen = 0;
  disk.calls.push = (made = "") => {
    const atCall = push(made) - 1;
    if (made === `${call} ${folder}/large` && ++seen === nth)
      disk.fault = { atCall, when: "before", error: systemError("ENOSPC") };
    return atCall + 1;
  };
  await expect(save()).rejects.toMatchObject({ code: "ENOSPC" });
  // What the window has begun goes on; no later one is begun.
  expect(Math.ceil(seen / 4)).toBe(Math.ceil(nth / 4));
  expect(disk.opened).toEqual([]);
});

it.each([0, 5, lastPiece])("an abort while piece %i is written ends it: no later window is begun", async (last) => {
  const abort = new AbortController();
  const written: number[] = [];
  const fs = writing((file, path) => ({
    ...file,
    async write(content, at) {
      if (path.endsWith("large")) written.push(at / piece);
      if (at === last * piece && path.endsWith("large")) abort.abort(new Error("the job ends"));
      await file.write(content, at);
    },
  }));
  await expect(save(fs, abort.signal)).rejects.toThrow("the job ends");
  expect(Math.max(...written)).toBeLessThanOrEqual(last | 3);
  expect(disk.opened).toEqual([]);
});

it("however slow the disk flushes, twelve pieces are in memory and no more are asked for", async () => {
  const asked: number[] = [];
  const source: ByteSource = {
    length: sizeBytes,
    async copyTo(into, from) {
      asked.push(from / piece);
      into.set(bytes.subarray(from, from + into.length));
    },
  };
  let flush = (): void => {};
  const flushing = new Promise<void>((resolve) => {
    flush = resolve;
  });
  const fs = writing((file) => ({ ...file, sync: () => flushing.then(() => file.sync()) }));
  const saving = writeFiles([{ name: "large", parts: [source] }], { fs, folder, signal: never });
  await expect.poll(() => asked.length).toBe(12);
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  expect(asked).toHaveLength(12);
  flush();
  expect(await saving).toEqual([{ name: "large", bytes: sizeBytes, sha256Tree: expect.any(String) }]);
  expect(asked).toHaveLength(lastPiece + 1);
});

it("a window is flushed while the next one is written, and read back after its flush only", async () => {
  let next = (): void => {};
  const nextWritten = new Promise<void>((resolve) => {
    next = resolve;
  });
  const fs = writing((file, path) => ({
    ...file,
    async write(content, at) {
      if (path.endsWith("large") && at === 4 * piece) next();
      await file.write(content, at);
    },
    // Never ends unless the next window is begun meanwhile.
    async sync() {
      if (path.endsWith("large")) await nextWritten;
      await file.sync();
    },
  }));
  await save(fs);
  const large = disk.calls
    .filter((call) => /^(?:write|sync|read) .*large$/.test(call))
    .map((call) => call.split(" ")[0]);
  const flushes = (calls: readonly unknown[]): number => calls.filter((call) => call === "sync").length;
  const reads = large.flatMap((call, at) => (call === "read" ? [at] : []));
  reads.forEach((at, nth) => void expect(flushes(large.slice(0, at))).toBeGreaterThan(Math.floor(nth / 4)));
  expect([reads.length, flushes(large)]).toEqual([lastPiece + 1, 4]);
});

it("each file is flushed once for every four pieces that it has begun, and once where it has none", async () => {
  const plansOf = (sizes: readonly number[]) =>
    sizes.map((size) => ({ name: `f${size}`, parts: [new Uint8Array(size)] }));
  const sizes = [0, 1, 4 * piece, 4 * piece + 1];
  await writeFiles(plansOf(sizes), { fs: disk.fs, folder, signal: never });
  const flushes = sizes.map((size) => disk.calls.filter((call) => call === `sync ${folder}/f${size}`).length);
  expect(flushes).toEqual([1, 1, 1, 2]);
});

it("two pieces are read back at once, and no more once nobody waits for them", async () => {
  const abort = new AbortController();
  let [now, most, begun] = [0, 0, 0];
  const fs: CheckpointFs = {
    ...disk.fs,
    open: async (path) => {
      const file = await disk.fs.open(path);
      const read = async (into: Uint8Array, at: number): Promise<number> => {
        begun++;
        most = Math.max(most, ++now);
        for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
        now--;
        if (begun > 4) abort.abort(new Error("the job ends"));
        return file.read(into, at);
      };
      return { ...file, read };
    },
  };
  const plan = (pieces: number) => [{ name: `f${pieces}`, parts: [new Uint8Array(pieces * piece)] }];
  await writeFiles(plan(4), { fs, folder, signal: abort.signal });
  expect([begun, most]).toEqual([4, 2]);
  await expect(writeFiles(plan(3), { fs, folder, signal: abort.signal })).rejects.toThrow("the job ends");
  expect(begun).toBe(6);
});

it.each(["write", "read"] as const)(
  "a file is closed after it is flushed, also where a %s fails meanwhile",
  async (failing) => {
    const events: string[] = [];
    let flush = (): void => {};
    const flushing = new Promise<void>((resolve) => {
      flush = resolve;
    });
    const fail = (): never => {
      events.push("failed");
      throw systemError("EIO");
    };
    let syncs = 0;
    const fs: CheckpointFs = {
      ...writing((file) => ({
        ...file,
        write: async (content, at) => (failing === "write" && at === 4 * piece ? fail() : file.write(content, at)),
        async sync() {
          if (++syncs === (failing === "write" ? 1 : 2)) await flushing;
          await file.sync();
          events.push("flushed");
        },
        async close() {
          events.push("closed");
          await file.close();
        },
      })),
      open: async (path) => {
        const file = await disk.fs.open(path);
        return {
          ...file,
          read: (into, at) => (failing === "read" ? Promise.resolve().then(fail) : file.read(into, at)),
        };
      },
    };
    const saving = writeFiles([{ name: "large", parts: [new Uint8Array(8 * piece)] }], { fs, folder, signal: never });
    saving.catch(() => {});
    await expect.poll(() => events.includes("failed") && syncs > (failing === "write" ? 0 : 1)).toBe(true);
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    expect(events).not.toContain("closed");
    flush();
    await expect(saving).rejects.toMatchObject({ code: "EIO" });
    expect(events.indexOf("closed")).toBeGreaterThan(events.lastIndexOf("flushed"));
  },
);
