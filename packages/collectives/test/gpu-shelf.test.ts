import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Gpu, type GpuBuffer, type GpuShelf, openGpu } from "../src/index.ts";
import { digestOf } from "../src/internal.ts";
import { buildTimeoutMs, gpuLibraries } from "./support/fake-gpu.ts";

const wait = { deadlineMs: 10_000, signal: new AbortController().signal };
const key = new Uint8Array(32).fill(7);
const weights = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);
const id = { lineage: 1, version: 1 };
const digest = digestOf(weights);
const folder = mkdtempSync(join(tmpdir(), "muster-shelf-"));
let gpu: Gpu;
let shelf: GpuShelf;
let buffer: GpuBuffer;

beforeAll(async () => {
  gpu = await openGpu(gpuLibraries(), 0, wait);
}, buildTimeoutMs);
afterAll(() => rmSync(folder, { recursive: true }));

beforeEach(async () => {
  shelf = await gpu.openShelf({ key, job: "job", member: "policy-0", socketDir: folder });
  buffer = await gpu.allocate(weights.byteLength, wait);
  await buffer.write(weights, 0, wait);
  await shelf.put({ id, digest }, buffer, wait);
});
afterEach(() => shelf.close());

const take = (options: { key?: Uint8Array; id?: typeof id; digest?: string; holder?: string } = {}) =>
  gpu.takeVersion({ key, job: "job", member: "rollout-0", holder: shelf.address, id, digest, ...options }, wait);

async function bytesOf(taken: GpuBuffer): Promise<Uint8Array> {
  const bytes = new Uint8Array(taken.bytes);
  await taken.read(bytes, 0, wait);
  return bytes;
}

describe("a version on a GPU", () => {
  it("is the same memory for whoever takes it, and stays when the shelf is closed and its maker lets go", async () => {
    const taken = await take();
    await shelf.close();
    await shelf.close();
    buffer.close();
    expect(await bytesOf(taken)).toEqual(weights);
    await expect(take()).rejects.toMatchObject({ code: "MUSTER_ERR_PULL_UNREACHABLE" });
    await expect(shelf.put({ id: { lineage: 1, version: 9 }, digest }, taken, wait)).rejects.toMatchObject({
      code: "MUSTER_ERR_VERSION_STORE_CLOSED",
    });
  });

  it("is offered again by who took it, also when its maker is gone", async () => {
    const taken = await take();
    await shelf.close();
    buffer.close();
    const second = await gpu.openShelf({ key, job: "job", member: "rollout-0", socketDir: folder });
    await second.put({ id, digest }, taken, wait);
    taken.close();
    expect(await bytesOf(await take({ holder: second.address }))).toEqual(weights);
    await second.close();
  });

  it("is not written any more, by its maker or by a reader, with a copy or by a collective", async () => {
    const invalid = { code: "MUSTER_ERR_NATIVE_OPTION_INVALID" };
    const taken = await take();
    await expect(buffer.write(weights, 0, wait)).rejects.toMatchObject(invalid);
    await expect(taken.write(weights, 0, wait)).rejects.toMatchObject(invalid);
    const alone = await gpu.openCommunicator({ id: await gpu.newId(wait), ranks: 1, rank: 0 }, wait);
    const sum = { collective: "allReduce", type: "float32", count: 2 } as const;
    await expect(alone.run([{ ...sum, from: { buffer: taken }, to: { buffer } }], wait)).rejects.toMatchObject(invalid);
    const own = await gpu.allocate(weights.byteLength, wait);
    await alone.run([{ ...sum, from: { buffer: taken }, to: { buffer: own } }], wait);
    expect(await bytesOf(own)).toEqual(weights);
    await alone.close(wait);
  });

  it("is refused to another key, under another digest, and once it has left the shelf", async () => {
    await expect(take({ key: new Uint8Array(32) })).rejects.toMatchObject({ code: "MUSTER_ERR_PULL_REFUSED" });
    await expect(take({ digest: digestOf(new Uint8Array(3)) })).rejects.toMatchObject({
      code: "MUSTER_ERR_PULL_DIGEST_MISMATCH",
    });
    for (const version of [2, 3])
      await shelf.put({ id: { lineage: 1, version }, digest }, await gpu.allocate(8, wait), wait);
    await expect(take()).rejects.toMatchObject({ code: "MUSTER_ERR_VERSION_GONE" });
    await expect(take()).rejects.toThrow(/no holder has version 1\/1/);
  });

  it("has one meaning: the same again is nothing new, another buffer or digest is a conflict", async () => {
    await shelf.put({ id, digest }, buffer, wait);
    const other = await gpu.allocate(weights.byteLength, wait);
    const conflict = { code: "MUSTER_ERR_VERSION_CONFLICT" };
    await expect(shelf.put({ id, digest }, other, wait)).rejects.toMatchObject(conflict);
    await expect(shelf.put({ id, digest: digestOf(key) }, buffer, wait)).rejects.toMatchObject(conflict);
  });
});
