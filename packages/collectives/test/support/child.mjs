// A real process for tests that kill: does what it is told over IPC and answers with { done } or { failed: code }.
// Uses the built package, because Node 20 cannot run the TypeScript sources.
import { readFile } from "node:fs/promises";
import { Worker } from "node:worker_threads";
import { openGradientMesh, openGroup, openVersionStore, pullVersion } from "../../dist/index.js";
import { digestOf } from "../../dist/internal.js";
import { beBusy } from "./busy-worker.mjs";

const never = new AbortController().signal;
const key = new Uint8Array(32).fill(7);
const job = "job-under-test";
let store;
let mesh;
let group;
let newest;
let pulling = false;

const commands = {
  async hold({ member, socketDir, tcpHost, sizeBytes, seedByte, id }) {
    store = await openVersionStore({ key, job, member, socketDir, tcpHost, slotBytes: sizeBytes });
    const sections = await store.publish(id, { weights: new Uint8Array(sizeBytes).fill(seedByte) });
    return { addresses: store.addresses, sections };
  },
  async holdFile({ member, socketDir, tcpHost, path, id }) {
    const weights = await readFile(path);
    store = await openVersionStore({ key, job, member, socketDir, tcpHost, slotBytes: weights.length + 64 });
    const [section] = await store.publish(id, { weights });
    return { addresses: store.addresses, section };
  },
  async join(options) {
    mesh = await openGradientMesh({ ...options, key, job, signal: never });
  },
  async reduce({ op, written, deadlineMs }) {
    for (const shard of written) mesh.shard(shard).fill(shard);
    await mesh.reduce({ op, written, deadlineMs, signal: never });
  },
  async joinGroup(options) {
    group = await openGroup({ ...options, key, job, signal: never });
  },
  // Adds up again and again, until that fails.
  async sums({ count }) {
    for (;;) await group.allReduce({ dtype: "f32", count, deadlineMs: 10_000, signal: never });
  },
  // Pulls whatever is newest, again and again, until told to stop; a pulled version must digest as announced.
  async read({ holders }) {
    pulling = true;
    const counts = { whole: 0, torn: 0, gone: 0, other: [] };
    while (pulling || counts.whole === 0) {
      const wanted = newest;
      if (wanted === undefined) {
        await new Promise((resolve) => setImmediate(resolve));
        continue;
      }
      const into = { weights: new Uint8Array(wanted.sections[0].bytes) };
      try {
        await pullVersion({ key, job, member: "reader", holders, ...wanted, into, deadlineMs: 10_000, signal: never });
        counts[digestOf(into.weights) === wanted.sections[0].digest ? "whole" : "torn"] += 1;
      } catch (error) {
        if (error.code === "MUSTER_ERR_VERSION_GONE") counts.gone += 1;
        else counts.other.push(String(error));
      }
    }
    return counts;
  },
  // Leaves in the middle of everything: an open store, a mesh that waits, a pull that waits.
  async exitBusy({ socketDir, silentAddress }) {
    await beBusy(socketDir, silentAddress);
    process.send({ done: null }, () => process.exit(0));
    return new Promise(() => {});
  },
  async terminateBusyWorker({ socketDir, silentAddress }) {
    const worker = new Worker(new URL("./busy-worker.mjs", import.meta.url), {
      workerData: { socketDir, silentAddress },
    });
    await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject));
    await worker.terminate();
    return digestOf(new Uint8Array(0));
  },
};

process.on("message", async ({ call, options }) => {
  if (call === "newest") newest = options;
  else if (call === "stop") pulling = false;
  else {
    try {
      process.send({ done: (await commands[call](options)) ?? null });
    } catch (error) {
      process.send({ failed: error.code ?? String(error) });
    }
  }
});
process.on("disconnect", () => process.exit(0));
