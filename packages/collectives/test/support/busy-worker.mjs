// Blocks on everything at once: a store that is open, a mesh whose peer never comes, a pull from an address that never speaks.
import { isMainThread, parentPort, workerData } from "node:worker_threads";
import { openGradientMesh, openVersionStore, pullVersion } from "../../dist/index.js";

const key = new Uint8Array(32).fill(7);
const job = "job-under-test";
const signal = new AbortController().signal;

export async function beBusy(socketDir, silentAddress) {
  const id = { lineage: 0, version: 0 };
  const store = await openVersionStore({ key, job, member: "busy", socketDir, tcpHost: null, slotBytes: 4096 });
  const sections = await store.publish(id, { weights: new Uint8Array(4096) });
  const ignore = () => {}; // what they end with does not matter here, only that the process survives it
  const members = ["busy", "never-comes"];
  const mesh = { epoch: 1, rank: 0, members, socketDir, shards: 1, shardElements: 64, deadlineMs: 60_000 };
  openGradientMesh({ key, job, signal, ...mesh }).catch(ignore);
  const into = { weights: new Uint8Array(4096) };
  const pull = { member: "busy", holders: [silentAddress], id, sections, into, deadlineMs: 60_000 };
  pullVersion({ key, job, signal, ...pull }).catch(ignore);
  const alone = await openGradientMesh({ key, job, signal, ...mesh, epoch: 2, members: ["busy"] });
  alone.shard(0).fill(1);
}

if (!isMainThread) {
  await beBusy(workerData.socketDir, workerData.silentAddress);
  parentPort.postMessage("busy");
}
