/**
 * The longest time for which the data plane keeps the JavaScript thread from anything else, with a version, a mesh and a group of 4 GiB, while that
 * thread is busy all the time. What counts is what it computes, sleeps, and waits for locks and collectors; what the kernel gave to other threads
 * and programs meanwhile does not, and is told beside.
 */
import { openSync, readSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { medianOf } from "@muster/base";
import { digestsOf, mapVersion, openGradientMesh, openGroup, openVersionStore } from "@muster/collectives";
import { spreadOf } from "./lib/stats.mjs";

export const about = "longest block of the event loop by 4 GiB";

const GiB = 2 ** 30;
const limitMs = 5;
const rounds = 3;
const key = new Uint8Array(32).fill(9);
const job = "bench";
const deadlineMs = 120_000;
const call = () => ({ deadlineMs, signal: new AbortController().signal });

const schedstat = openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
const text = Buffer.alloc(128);

/** Nanoseconds for which the JavaScript thread could have run and did not: the second figure of its schedstat. */
function waitedNs() {
  const [, waited] = text.toString("latin1", 0, readSync(schedstat, text, 0, text.length, 0)).split(" ", 2);
  return Number(waited);
}

/** Both clocks at one moment: the thread was not put aside between them. */
function moment() {
  for (let before = waitedNs(); ; ) {
    const ms = performance.now();
    const waited = waitedNs();
    if (waited === before) return { ms, waitedMs: waited / 1e6 };
    before = waited;
  }
}

/**
 * The longest time between two turns of the loop while `work` goes on, without and with what other threads took.
 *
 * @param {() => unknown} work @returns {Promise<{ own: number, wall: number }>} in ms
 */
async function longestBlock(work) {
  const longest = { own: 0, wall: 0 };
  await turn();
  let last = moment();
  const look = () => {
    const now = moment();
    const wall = now.ms - last.ms;
    longest.own = Math.max(longest.own, wall - (now.waitedMs - last.waitedMs));
    longest.wall = Math.max(longest.wall, wall);
    last = now;
  };
  let over = false;
  const done = Promise.resolve(work()).finally(() => {
    over = true;
  });
  look();
  for (let after = 0; after < 100; after += over ? 1 : 0) {
    await turn();
    look();
  }
  await done;
  return longest;
}

/** @param {string} socketDir @param {(name: string, work: () => unknown) => Promise<void>} measure @param {Uint8Array} part */
async function oneRound(socketDir, measure, part) {
  const store = await openVersionStore({
    key,
    job,
    member: "policy-0",
    socketDir,
    tcpHost: null,
    slotBytes: 4 * GiB + 4096,
    slots: 2,
  });
  const id = { lineage: 0, version: 0 };
  /** @type {Awaited<ReturnType<typeof store.publish>>} */
  let sections;
  await measure("publish a version", async () => {
    sections = await store.publish(id, { a: part, b: part, c: part, d: part });
  });
  /** @type {Awaited<ReturnType<typeof mapVersion>>} */
  let mapped;
  await measure("map it", async () => {
    const pull = { key, job, member: "rollout-0", holders: store.addresses, id, sections };
    mapped = await mapVersion({ ...pull, ...call() });
  });
  await measure("copy a quarter of it", () => mapped.copyTo("a", part, call()));
  await measure("read it in windows of 4 MiB", async () => {
    const window = part.subarray(0, 4 * 2 ** 20);
    for (let from = 0; from < GiB; from += window.length) await mapped.copyTo("a", window, { ...call(), from });
  });
  await measure("digest a section of 1 GiB", () => digestsOf([part], call().signal));
  await measure("release it", () => mapped.release());
  await measure("close the store", () => store.close());
  const member = { key, job, epoch: 1, rank: 0, members: ["policy-0"], socketDir };
  /** @type {Awaited<ReturnType<typeof openGradientMesh>>} */
  let mesh;
  await measure("open a mesh", async () => {
    mesh = await openGradientMesh({ ...member, shards: 3, shardElements: 2 ** 28, ...call() });
  });
  await measure("reduce", () => mesh.reduce({ op: 1, written: [0, 1, 2], ...call() }));
  await measure("close the mesh", () => mesh.close());
  /** @type {Awaited<ReturnType<typeof openGroup>>} */
  let group;
  await measure("open a group", async () => {
    group = await openGroup({ ...member, name: "bench", capacityBytes: GiB, ...call() });
  });
  await measure("all-reduce", () => group.allReduce({ dtype: "f32", count: 2 ** 28, ...call() }));
  await measure("close the group", () => group.close());
}

export async function* run() {
  const socketDir = await mkdtemp(join(tmpdir(), "muster-bench-"));
  /** @type {Map<string, { own: number, wall: number }[]>} */
  const blocks = new Map();
  const part = new Uint8Array(GiB).fill(1);
  try {
    for (let round = 0; round < rounds; round++)
      await oneRound(
        socketDir,
        async (name, work) => {
          const longest = await longestBlock(work);
          blocks.set(name, [...(blocks.get(name) ?? []), longest]);
        },
        part,
      );
  } finally {
    await rm(socketDir, { recursive: true, force: true });
  }
  for (const [name, times] of blocks) {
    const ours = medianOf(times.map(({ own }) => own));
    const ratios = times.map(({ own }) => own / limitMs);
    yield {
      name,
      unit: "ms",
      against: `limit of ${limitMs} ms`,
      ours,
      reference: limitMs,
      aim: limitMs,
      ratio: ours / limitMs,
      spread: spreadOf(ratios),
      note: `${medianOf(times.map(({ wall }) => wall)).toFixed(2)} ms with what other threads took`,
    };
  }
}
