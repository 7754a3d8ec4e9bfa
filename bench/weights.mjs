/**
 * Publishing and pulling one weight version (weights and optimizer, 1 MB) against copying the same bytes, in CPU time of this process:
 * store and reader both run in it.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openVersionStore, pullVersion } from "@muster/collectives";
import { digestOf } from "@muster/collectives/internal";
import { compare } from "./lib/compare.mjs";

export const about = "publish and pull of a weight version against memcpy";

const key = new Uint8Array(32).fill(9);
const sizes = { weights: 339_968, optimizer: 679_944 };
const total = sizes.weights + sizes.optimizer;

/** Byte patterns that differ, so that nothing can be shared. @param {number} length */
const bytesOf = (length) => Uint8Array.from({ length }, (_, i) => (i * 31) % 251);

export async function* run() {
  const socketDir = await mkdtemp(join(tmpdir(), "muster-bench-"));
  const member = "policy-0";
  const slotBytes = total + 4096;
  const store = await openVersionStore({
    key,
    job: "bench",
    member,
    socketDir,
    tcpHost: "127.0.0.1",
    slotBytes,
    slots: 2,
  });
  try {
    yield* await rowsOf(store);
  } finally {
    await store.close();
    await rm(socketDir, { recursive: true, force: true });
  }
}

/** @param {Awaited<ReturnType<typeof openVersionStore>>} store */
async function rowsOf(store) {
  const sections = { weights: bytesOf(sizes.weights), optimizer: bytesOf(sizes.optimizer) };
  const into = { weights: new Uint8Array(sizes.weights), optimizer: new Uint8Array(sizes.optimizer) };
  const from = Buffer.alloc(total, 1);
  const to = Buffer.alloc(total);
  let version = 0;
  let infos = await store.publish({ lineage: 0, version }, sections);
  const pullBy = (/** @type {string} */ scheme) => async (/** @type {number} */ pieces) => {
    const holders = store.addresses.filter((address) => address.startsWith(scheme));
    const id = { lineage: 0, version };
    const wanted = { key, job: "bench", member: "rollout-0", holders, id, sections: infos, into };
    for (let i = 0; i < pieces; i++)
      await pullVersion({ ...wanted, deadlineMs: 5_000, signal: new AbortController().signal });
  };
  const reference = (/** @type {number} */ pieces) => {
    for (let i = 0; i < pieces; i++) from.copy(to);
  };
  const publish = async (/** @type {number} */ pieces) => {
    for (let i = 0; i < pieces; i++) infos = await store.publish({ lineage: 0, version: ++version }, sections);
  };
  const digest = (/** @type {number} */ pieces) => {
    for (let i = 0; i < pieces; i++) digestOf(from);
  };
  const shared = { against: "Buffer.copy of 1 MB", reference };
  return [
    await compare({ ...shared, name: "digest of 1 MB", ours: digest }),
    await compare({ ...shared, name: "publish 1 MB", ours: publish }),
    await compare({ ...shared, name: "pull 1 MB by memory", ours: pullBy("unix:") }),
    await compare({ ...shared, name: "pull 1 MB by tcp", ours: pullBy("tcp:") }),
  ];
}
