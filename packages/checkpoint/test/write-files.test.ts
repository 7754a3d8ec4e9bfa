/** Files of many pieces: what is found wherever it happens, and how much is under way at once. */
import { createHash } from "node:crypto";
import { beforeEach, expect, it } from "vitest";
import type { ByteSource, PlannedFile } from "../src/content.ts";
import type { CheckpointFs, WritableFile } from "../src/files.ts";
import { writeFiles } from "../src/write-files.ts";
import { never } from "./content.ts";
import { MemoryDisk, systemError } from "./disk.ts";

const folder = "/root";
const piece = 4 * 1024 * 1024;
const sizeBytes = 13 * piece + piece / 2;
const lastPiece = 13;
/** Pieces that are under way at once. */
const lanes = 6;

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
  ...[1, 2].map((nth) => ["sync", nth] as const),
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
  // What the lanes have begun goes on; nothing else is begun.
  expect(seen).toBeLessThan(nth + lanes);
  expect(disk.opened).toEqual([]);
});

it.each([0, 5, lastPiece])("an abort while piece %i is written ends it: no other is begun", async (last) => {
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
  expect(Math.max(...written)).toBeLessThan(last + lanes);
  expect(disk.opened).toEqual([]);
});

it("six pieces are asked of a source at once, and no more before one of them was read back", async () => {
  const asked: number[] = [];
  const source: ByteSource = {
    length: sizeBytes,
    async copyTo(into, from) {
      asked.push(from / piece);
      into.set(bytes.subarray(from, from + into.length));
    },
  };
  let read = (): void => {};
  const reading = new Promise<void>((resolve) => {
    read = resolve;
  });
  const fs: CheckpointFs = {
    ...disk.fs,
    open: async (path) => {
      const file = await disk.fs.open(path);
      return { ...file, read: (into, at) => reading.then(() => file.read(into, at)) };
    },
  };
  const saving = writeFiles([{ name: "large", parts: [source] }], { fs, folder, signal: never });
  await expect.poll(() => asked.length).toBe(lanes);
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  expect(asked).toHaveLength(lanes);
  read();
  expect(await saving).toEqual([{ name: "large", bytes: sizeBytes, sha256Tree: expect.any(String) }]);
  expect(asked).toHaveLength(lastPiece + 1);
});

it("writes are flushed while others are made", async () => {
  let [next, written] = [(): void => {}, 0];
  const nextWritten = new Promise<void>((resolve) => {
    next = resolve;
  });
  const fs = writing((file, path) => ({
    ...file,
    async write(content, at) {
      await file.write(content, at);
      if (path.endsWith("large") && ++written === lastPiece) next();
    },
    // Never ends unless more is written meanwhile.
    async sync() {
      if (path.endsWith("large")) await nextWritten;
      await file.sync();
    },
  }));
  await save(fs);
  expect(disk.calls.filter((call) => call === `sync ${folder}/large`)).toHaveLength(2);
});

it("a file without a byte is flushed, too", async () => {
  await writeFiles([{ name: "empty", parts: [] }], { fs: disk.fs, folder, signal: never });
  expect(disk.calls.filter((call) => call === `sync ${folder}/empty`)).toHaveLength(1);
});

it("a buffer is written from where it lies, and of a header and what follows it one piece is a copy", async () => {
  const given: ArrayBufferLike[] = [];
  const fs = writing((file, path) => ({
    ...file,
    write: async (content, at) => {
      if (path.endsWith("large")) given[at / piece] = content.buffer;
      await file.write(content, at);
    },
  }));
  await save(fs);
  expect(given.map((buffer) => buffer === bytes.buffer)).toEqual(
    [true, ...Array<boolean>(lastPiece).fill(true)].with(0, false),
  );
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
        write: async (content, at) => (failing === "write" && at === 9 * piece ? fail() : file.write(content, at)),
        async sync() {
          syncs++;
          await flushing;
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
          read: (into, at) =>
            failing === "read" && at === 9 * piece ? Promise.resolve().then(fail) : file.read(into, at),
        };
      },
    };
    const saving = writeFiles([{ name: "large", parts: [new Uint8Array(11 * piece)] }], { fs, folder, signal: never });
    saving.catch(() => {});
    await expect.poll(() => events.includes("failed") && syncs > 0).toBe(true);
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    expect(events).not.toContain("closed");
    flush();
    await expect(saving).rejects.toMatchObject({ code: "EIO" });
    expect(events.indexOf("closed")).toBeGreaterThan(events.lastIndexOf("flushed"));
  },
);
