import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { mapVersion, openVersionStore, type PullProgress, pullVersion, type VersionStore } from "../src/index.ts";
import { bytesOf, job, key, pullOf, relay, socketFolder } from "./support/fixtures.ts";

const MiB = 1024 * 1024;
const id = { lineage: 0, version: 1 };

let folder: ReturnType<typeof socketFolder>;
let store: VersionStore;

beforeEach(async () => {
  folder = socketFolder();
  const options = { key, job, member: "holder", socketDir: folder.path, tcpHost: "127.0.0.1" };
  store = await openVersionStore({ ...options, slotBytes: 32 * MiB });
});
afterEach(async () => {
  await store.close();
  folder.remove();
});

describe("a pull", () => {
  it("says while a version comes over the network how far it is", async () => {
    const sections = await store.publish(id, { weights: bytesOf(24 * MiB, 1), optimizer: bytesOf(MiB, 2) });
    const seen: PullProgress[] = [];
    // Falls silent after the first part, so that there is time to hear of it; the rest comes from the store itself.
    const silent = await relay(store.addresses[1]!, 8 * MiB, () => {});
    const onProgress = (progress: PullProgress): void => void seen.push(progress);
    const options = pullOf(id, sections, [silent.address, store.addresses[1]!]);
    const { bytes } = await pullVersion({ ...options, onProgress, progressEveryMs: 1 });
    silent.close();
    expect(bytes).toBe(25 * MiB);
    expect(seen[0]!.bytes).toBeGreaterThan(0);
    expect(seen[0]!.bytes).toBeLessThanOrEqual(8 * MiB);
    expect(seen.map(({ totalBytes }) => totalBytes)).toEqual(seen.map(() => 25 * MiB));
    const steps = seen.map((progress) => progress.bytes);
    expect(steps).toEqual([...new Set(steps)].sort((a, b) => a - b));
  });

  it("says nothing about a version of the same host, which is there at once", async () => {
    const sections = await store.publish(id, { weights: bytesOf(MiB, 1) });
    const { into: _, ...options } = pullOf(id, sections, [store.addresses[0]!]);
    const seen: PullProgress[] = [];
    const onProgress = (progress: PullProgress): void => void seen.push(progress);
    (await mapVersion({ ...options, onProgress, progressEveryMs: 1 })).release();
    expect(seen).toEqual([]);
  });

  it("refuses a time between two reports that is none", async () => {
    const sections = await store.publish(id, { weights: bytesOf(MiB, 1) });
    const options = { ...pullOf(id, sections, store.addresses), onProgress: () => {}, progressEveryMs: 0 };
    await expect(pullVersion(options)).rejects.toMatchObject({ code: "MUSTER_ERR_NATIVE_OPTION_INVALID" });
  });
});
