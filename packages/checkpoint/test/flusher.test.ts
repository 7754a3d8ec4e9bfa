/** When files are flushed that are being written, and how much waits for it. */
import { beforeEach, expect, it } from "vitest";
import type { WritableFile } from "../src/files.ts";
import { Flusher } from "../src/flusher.ts";
import { systemError } from "./disk.ts";

const MiB = 1024 * 1024;

let flusher: Flusher;
/** Flushes that are under way or over, in order, by file. */
let flushed: string[];
/** Ends those that are under way. */
let pending: { readonly name: string; resolve(): void; reject(error: Error): void }[];

beforeEach(() => {
  flusher = new Flusher();
  [flushed, pending] = [[], []];
});

function fileOf(name: string): WritableFile {
  const file = {
    write: async () => expect.fail("nothing is written here"),
    sync: () => {
      flushed.push(name);
      return new Promise<void>((resolve, reject) => void pending.push({ name, resolve, reject }));
    },
    close: async () => {},
  };
  flusher.add(file);
  return file;
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function settle(error?: Error): Promise<void> {
  for (const { resolve, reject } of pending.splice(0)) error ? reject(error) : resolve();
  await turn();
}

/** What has become of a promise by the next turn. */
async function stateOf(promise: Promise<unknown>): Promise<"waits" | "done" | "failed"> {
  const state = Promise.race([promise.then(() => "done" as const), turn().then(() => "waits" as const)]);
  return await state.catch(() => "failed" as const);
}

it("nothing is flushed before 32 MiB were written, and then one flush at a time, of the file with the most", async () => {
  const [one, other] = [fileOf("one"), fileOf("other")];
  await flusher.wrote(one, 20 * MiB);
  await flusher.wrote(other, 12 * MiB - 1);
  expect(flushed).toEqual([]);
  await flusher.wrote(other, 1);
  expect(flushed).toEqual(["one"]);
  await flusher.wrote(other, 40 * MiB);
  expect(flushed).toEqual(["one"]);
  await settle();
  await flusher.wrote(one, 1);
  expect(flushed).toEqual(["one", "other"]);
});

it("at the end every file is flushed that has more than its last flush, or had none", async () => {
  const [one] = [fileOf("one"), fileOf("empty"), fileOf("other")];
  await flusher.wrote(one!, 32 * MiB);
  await settle();
  const ending = flusher.end();
  await turn();
  expect(flushed).toEqual(["one", "empty", "other"]);
  expect(await stateOf(ending)).toBe("waits");
  await settle();
  expect(await stateOf(ending)).toBe("done");
});

it("the end waits for the flush that is under way before it begins others, and flushes again what was written meanwhile", async () => {
  const file = fileOf("one");
  await flusher.wrote(file, 32 * MiB);
  await flusher.wrote(file, 1);
  const ending = flusher.end();
  await turn();
  expect(flushed).toEqual(["one"]);
  await settle();
  expect(flushed).toEqual(["one", "one"]);
  await settle();
  await ending;
});

it("who writes waits while 128 MiB are not flushed", async () => {
  const file = fileOf("one");
  await flusher.wrote(file, 32 * MiB);
  expect(await stateOf(flusher.wrote(file, 128 * MiB - 1))).toBe("done");
  const last = flusher.wrote(file, 1);
  expect(await stateOf(last)).toBe("waits");
  await settle();
  expect(await stateOf(last)).toBe("done");
  expect(flushed).toEqual(["one", "one"]);
});

it("after a failed flush nothing is flushed any more, and whoever writes or ends hears of it", async () => {
  const [one, other] = [fileOf("one"), fileOf("other")];
  await flusher.wrote(one, 32 * MiB);
  await settle(systemError("EIO"));
  await expect(flusher.wrote(other, 64 * MiB)).rejects.toThrow("EIO");
  await expect(flusher.end()).rejects.toThrow("EIO");
  await flusher.idle();
  expect(flushed).toEqual(["one"]);
});

it("who waits for room when a flush fails hears of it", async () => {
  const file = fileOf("one");
  await flusher.wrote(file, 32 * MiB);
  const waiting = flusher.wrote(file, 128 * MiB);
  waiting.catch(() => {});
  await settle(systemError("EIO"));
  await expect(waiting).rejects.toThrow("EIO");
});

it("a flush that fails at the end is heard of when the others are over", async () => {
  fileOf("one");
  fileOf("other");
  const ending = flusher.end();
  ending.catch(() => {});
  await turn();
  pending.shift()?.reject(systemError("EIO"));
  expect(await stateOf(ending)).toBe("waits");
  await settle();
  await expect(ending).rejects.toThrow("EIO");
});
