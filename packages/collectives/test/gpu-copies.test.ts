/** From versions to device memory. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Gpu, mapVersion, openGpu, openVersionStore, type VersionStore } from "../src/index.ts";
import { buildTimeoutMs, gpuLibraries } from "./support/fake-gpu.ts";
import { bytesOf, job, key, pullOf, socketFolder } from "./support/fixtures.ts";

const wait = { deadlineMs: 10_000, signal: new AbortController().signal };
const id = { lineage: 1, version: 1 };
const MiB = 1024 * 1024;
const weights = bytesOf(3 * MiB + 5, 1);
const folder = socketFolder();
const stores: VersionStore[] = [];
let gpu: Gpu;

beforeAll(async () => {
  gpu = await openGpu(gpuLibraries(), 0, wait);
}, buildTimeoutMs);
afterEach(() => Promise.all(stores.splice(0).map((store) => store.close())));
afterAll(() => folder.remove());

async function mapWeights(scheme: string) {
  const store = await openVersionStore({
    ...{ key, job, member: "holder", socketDir: folder.path },
    ...{ tcpHost: "127.0.0.1", slotBytes: 8 * MiB },
  });
  stores.push(store);
  const sections = await store.publish(id, { bias: bytesOf(9, 2), weights });
  const holders = store.addresses.filter((address) => address.startsWith(scheme));
  const { into: _, ...options } = pullOf(id, sections, holders);
  return await mapVersion(options);
}

describe("a mapped version", () => {
  it.each(["unix:", "tcp:"])(
    "that came by %s goes to the device as it is, also when it is released meanwhile",
    async (scheme) => {
      const version = await mapWeights(scheme);
      const buffer = await gpu.allocate(4 * MiB, wait);
      const writing = buffer.writeFrom({ version, section: "weights", from: 0, bytes: weights.length }, 64, wait);
      version.release();
      await writing;
      const back = new Uint8Array(weights.length);
      await buffer.read(back, 64, wait);
      expect(Buffer.compare(back, weights)).toBe(0);
      buffer.close();
    },
  );

  it("is refused beyond its sections, beyond the buffer, when released, and for what is no stream", async () => {
    const version = await mapWeights("unix:");
    const buffer = await gpu.allocate(2 * MiB, wait);
    const write = (source: object, more = {}) =>
      buffer.writeFrom({ version, section: "weights", from: 0, bytes: 8, ...source }, 0, { ...wait, ...more });
    await expect(write({ section: "none" })).rejects.toThrow("source.section is none");
    await expect(write({ from: weights.length - 7 })).rejects.toThrow(`source.from is ${weights.length - 7}`);
    await expect(write({ bytes: weights.length + 1 })).rejects.toThrow(`source.bytes is ${weights.length + 1}`);
    await expect(write({ bytes: 3 * MiB })).rejects.toThrow("stay within the buffer's");
    await expect(write({}, { stream: -1n })).rejects.toThrow("stream is -1");
    const aborted = write({}, { signal: AbortSignal.abort() });
    await expect(aborted).rejects.toMatchObject({ code: "MUSTER_ERR_GPU_ABORTED" });
    version.release();
    await expect(write({})).rejects.toThrow("mapped is released");
    buffer.close();
  });
});
