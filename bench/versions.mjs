/**
 * Versions as large models have them: a section of 6 GiB, eight of 512 MiB, a sum of more than 2^30 elements, a table of 200,000 tensors and the ways of these from one layout to another. Seconds beside
 * the limit of this host, measured just before: as many bytes copied by all cores into warm memory. No buffer of JavaScript has more than 512 MiB.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, freemem, tmpdir } from "node:os";
import { join } from "node:path";
import { medianOf } from "@muster/base";
import { mapVersion, measureCopies, openGradientMesh, openVersionStore, planRank } from "@muster/collectives";
import { decodeSafetensorsHeader, encodeSafetensorsHeader, placeDensely } from "@muster/tensors";

export const about = "versions of large models against the limit of the host";

const MiB = 2 ** 20;
const GiB = 2 ** 30;
const pieceBytes = 512 * MiB;
const windowBytes = 64 * MiB;
const shardElements = 2 ** 30 + 2 ** 20;
const tableRows = 200_000;
/** Two of the largest, and what else there is. */
const needed = 14 * GiB;
const key = new Uint8Array(32).fill(9);
const job = "bench";
const call = () => ({ deadlineMs: 300_000, signal: new AbortController().signal });

/**
 * Seconds that the host takes to copy so many bytes. It takes twice as much memory for that: what a virtual machine has to ask its own host for comes then,
 * and not while we measure.
 *
 * @param {number} bytes
 */
async function limitOf(bytes) {
  return medianOf(
    (await measureCopies({ bytes, targets: 1, threads: availableParallelism(), samples: 3 })).map(
      ({ seconds }) => seconds,
    ),
  );
}

/** @param {() => unknown} work @returns {Promise<number>} */
async function secondsOf(work) {
  const startedMs = performance.now();
  await work();
  return (performance.now() - startedMs) / 1000;
}

/**
 * @param {string} name
 * @param {{ ours: number, reference: number, ratioAim: number, against?: string }} measured
 */
function row(name, { against = "limit of the host", ...measured }) {
  return { name, unit: "s", against, ...measured, ratio: measured.ours / measured.reference, spread: 0 };
}

/**
 * A version with these sections, from the publisher's memory into windows of a reader's.
 *
 * @param {string} socketDir @param {string} name @param {Record<string, Uint8Array[]>} sections
 */
async function* versionRows(socketDir, name, sections) {
  const bytes = Object.values(sections).flat().length * pieceBytes;
  const limit = await limitOf(bytes);
  const place = { key, job, member: "policy-0", socketDir, tcpHost: null };
  const store = await openVersionStore({ ...place, slotBytes: bytes + 4096, slots: 2 });
  const id = { lineage: 0, version: 0 };
  try {
    /** @type {Awaited<ReturnType<typeof store.publish>>} */
    let infos = [];
    const published = await secondsOf(async () => {
      infos = await store.publish(id, sections);
    });
    // Every byte is cleared by the kernel, copied, and digested.
    yield row(`publish ${name}, into memory without pages`, { ours: published, reference: limit, ratioAim: 4 });
    const pull = { key, job, member: "rollout-0", holders: store.addresses, id, sections: infos };
    const mapped = await mapVersion({ ...pull, ...call() });
    const window = new Uint8Array(windowBytes);
    const read = await secondsOf(async () => {
      for (const section of infos)
        for (let from = 0; from < section.bytes; from += windowBytes)
          await mapped.copyTo(section.name, window, { ...call(), from });
    });
    yield row(`read ${name} in windows of 64 MiB`, { ours: read, reference: limit, ratioAim: 2 });
    mapped.release();
  } finally {
    await store.close();
  }
}

/** The sum of one shard, which is a copy of it. @param {string} socketDir */
async function meshRow(socketDir) {
  const limit = await limitOf(4 * shardElements);
  const member = { key, job, epoch: 1, rank: 0, members: ["policy-0"], socketDir };
  const mesh = await openGradientMesh({ ...member, shards: 1, shardElements, ...call() });
  const window = { from: 2 ** 30, elements: 2 ** 20 };
  for (let from = 0; from < shardElements; from += 2 ** 26)
    mesh.shard(0, { from, elements: Math.min(2 ** 26, shardElements - from) }).fill(1);
  mesh.shard(0, window).fill(7);
  const ours = await secondsOf(async () => {
    const sum = await mesh.reduce({ op: 1, written: [0], window, ...call() });
    if (!sum.every((value) => value === 7)) throw new Error("the sum behind 2^30 elements is wrong");
  });
  mesh.close();
  return row("sum a shard of 2^30 + 2^20 elements", { ours, reference: limit, ratioAim: 2 });
}

/** Names as those of a model with many experts. */
async function tableRow() {
  const specs = Array.from({ length: tableRows }, (_, i) => ({
    name: `model.layers.${i % 61}.mlp.experts.${Math.floor(i / 61)}.gate_proj.weight`,
    dtype: /** @type {const} */ ("bf16"),
    shape: [1, 1],
  }));
  const table = placeDensely(specs);
  const sizeBytes = 2 * tableRows;
  const plain = Object.fromEntries(
    table.map(({ name, shape, offsetBytes }) => [
      name,
      { dtype: "BF16", shape, data_offsets: [offsetBytes, offsetBytes + 2] },
    ]),
  );
  const reference = await secondsOf(() => JSON.parse(JSON.stringify(plain)));
  const ours = await secondsOf(() => {
    const header = encodeSafetensorsHeader(table, sizeBytes);
    if (decodeSafetensorsHeader(header.subarray(8), sizeBytes).tensors.length !== tableRows)
      throw new Error("rows were lost");
  });
  const against = "JSON of the same table";
  return row("write and read a table of 200,000 tensors", { ours, reference, ratioAim: 6, against });
}

/**
 * The plan of one rank for the same number of tensors, of which every eighth is not cut, from layout to layout.
 *
 * @returns {AsyncGenerator<ReturnType<typeof row>>}
 */
async function* planRows() {
  const tensors = Array.from({ length: tableRows }, (_, i) => ({
    name: `model.layers.${i % 61}.mlp.experts.${Math.floor(i / 61)}.gate_proj.weight`,
    shape: [64, 3],
    elementBytes: 2,
    partition: i % 8 === 0 ? null : 0,
    layer: i % 61,
  }));
  const whole = { tp: 1, pp: 1, dp: 1, align: 1 };
  const cut = { tp: 32, pp: 1, dp: 1 };
  const against = "JSON of the same tensors";
  const reference = await secondsOf(() => JSON.parse(JSON.stringify(tensors)));
  for (const [name, from] of /** @type {const} */ ([
    ["one process", whole],
    ["32 ranks", cut],
  ])) {
    const ours = await secondsOf(() => {
      if (planRank(tensors, [from, cut], 31).slices.length !== tableRows) throw new Error("tensors were lost");
    });
    yield row(`plan one rank of 32 from ${name}, 200,000 tensors`, { ours, reference, ratioAim: 10, against });
  }
}

export async function* run() {
  if (freemem() < needed)
    throw new Error(`${(freemem() / GiB).toFixed(1)} GiB of memory are free, ${needed / GiB} are needed`);
  const socketDir = await mkdtemp(join(tmpdir(), "muster-bench-"));
  const piece = new Uint8Array(pieceBytes).fill(1);
  try {
    yield* versionRows(socketDir, "a section of 6 GiB", { weights: Array(12).fill(piece) });
    const shards = Object.fromEntries(Array.from({ length: 8 }, (_, i) => [`shard-${i}`, [piece]]));
    yield* versionRows(socketDir, "8 sections of 512 MiB", shards);
    yield await meshRow(socketDir);
    yield await tableRow();
    yield* planRows();
  } finally {
    await rm(socketDir, { recursive: true, force: true });
  }
}
