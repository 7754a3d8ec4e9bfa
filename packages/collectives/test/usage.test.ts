import { isDeepStrictEqual } from "node:util";
import { afterEach, beforeEach, expect, it } from "vitest";
import { dataPlaneUsage, openGradientMesh, openVersionStore, pullVersion } from "../src/index.ts";
import { bytesOf, job, key, meshOf, pullOf, relay, socketFolder, until } from "./support/fixtures.ts";

const MiB = 2 ** 20;
/** More than sockets and a relay hold between both ends: while this process waits for a processor, a holder may send what fits there and be done. */
const bytes = 64 * MiB;

let folder: ReturnType<typeof socketFolder>;

beforeEach(() => {
  folder = socketFolder();
});
afterEach(() => folder.remove());

it("a mesh has its connections open and its shards mapped until it is closed", async () => {
  const before = dataPlaneUsage();
  const ranks = await Promise.all([0, 1, 2].map((rank) => openGradientMesh(meshOf(folder.path, rank, 3))));
  // The first rank has a connection to each of the others, and they have theirs to it.
  expect(dataPlaneUsage().connections).toBe(before.connections + 4);
  expect(dataPlaneUsage().mappedBytes).toBeGreaterThan(before.mappedBytes);
  for (const mesh of ranks) mesh.close();
  await until("everything to be given back", () => isDeepStrictEqual(dataPlaneUsage(), before));
});

it("a store has its slots mapped, and a pull over TCP its connection open, until they are over", async () => {
  const before = dataPlaneUsage();
  const store = await openVersionStore({
    ...{ key, job, member: "holder", socketDir: folder.path, tcpHost: "127.0.0.1", slotBytes: bytes },
  });
  const id = { lineage: 0, version: 1 };
  const sections = await store.publish(id, { weights: bytesOf(bytes, 3) });
  expect(dataPlaneUsage().mappedBytes - before.mappedBytes).toBeGreaterThanOrEqual(bytes);
  const address = store.addresses.find((each) => each.startsWith("tcp:"))!;
  let midway = 0;
  const broken = await relay(address, MiB, (reader, holder) => {
    midway ||= dataPlaneUsage().connections - before.connections;
    reader.destroy();
    holder.destroy();
  });
  await pullVersion(pullOf(id, sections, [broken.address, address]));
  expect(midway).toBe(2); // both ends are in this process
  broken.close();
  await store.close();
  await until("everything to be closed", () => dataPlaneUsage().connections === before.connections);
  await until("everything to be given back", () => dataPlaneUsage().mappedBytes === before.mappedBytes);
});
