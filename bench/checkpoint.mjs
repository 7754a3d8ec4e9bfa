/**
 * Checkpoints on the disk of this host, in turns with what the disk does with the same bytes: a save, until it is durable, beside a plain write to a new
 * file with fsync, and beside a write, fsync and reading it all back, which is what a save does; removing the older one afterwards is timed in neither,
 * and has a row of its own beside removing the file. A load beside a plain read into memory of its own. For the cold load both files are evicted from
 * the page cache before, for the warm one neither is. Every save and load also computes SHA-256 of each byte. Then a job on its own: what a checkpoint at
 * every step costs the trainers.
 */
import { execFileSync } from "node:child_process";
import { mkdtemp, open, readdir, rm, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { medianOf } from "@muster/base";
import { openCheckpointStore } from "@muster/checkpoint";
import { hasShaInstructions, sha256Each } from "@muster/collectives";
import { placeDensely } from "@muster/tensors";
import { runCluster } from "./distribution/cluster.mjs";
import { spreadOf } from "./lib/stats.mjs";

export const about = "checkpoints against plain files on the same disk";

const MiB = 2 ** 20;
/** A save has at least 0.85 of the speed of the plain write, and a load of the plain read. */
const ratioAim = 1 / 0.85;
const rounds = 7;
const sectionBytes = 128 * MiB;
const chunkBytes = 4 * MiB;
const signal = new AbortController().signal;

/** @param {() => Promise<unknown>} work @returns {Promise<number>} */
async function secondsOf(work) {
  const startedMs = performance.now();
  await work();
  return (performance.now() - startedMs) / 1000;
}

/** @param {string} path @param {readonly Uint8Array[]} sections */
async function writePlain(path, sections) {
  const file = await open(path, "w");
  for (const bytes of sections)
    for (let at = 0; at < bytes.length; at += chunkBytes) await file.write(bytes.subarray(at, at + chunkBytes));
  await file.sync();
  await file.close();
}

/**
 * Has a virtual machine hold memory for the page cache: where the host must give it first, that takes several times as long as the write. Before each write,
 * ours and theirs.
 * @param {string} path
 */
async function warmPageCache(path) {
  const file = await open(path, "w");
  const chunk = new Uint8Array(chunkBytes);
  for (let at = 0; at < 3 * sectionBytes; at += chunkBytes) await file.write(chunk);
  await file.close();
  await unlink(path);
}

/** Into memory that is used for the first time, as that of a load is. @param {string} path */
async function readPlain(path) {
  const file = await open(path, "r");
  const into = new Uint8Array((await file.stat()).size);
  for (let at = 0; at < into.length; at += chunkBytes) await file.read(into, at, chunkBytes, at);
  await file.close();
  return into;
}

/** Puts files out of the page cache. @param {readonly string[]} paths */
function evict(paths) {
  for (const path of paths) execFileSync("dd", [`if=${path}`, "iflag=nocache", "count=0"], { stdio: "ignore" });
}

/** @param {string} name @param {readonly number[]} ours @param {readonly number[]} theirs @param {string} against */
function row(name, ours, theirs, against, unit = "s") {
  const ratios = ours.map((took, i) => took / (theirs[i] ?? Number.NaN));
  const [mine, reference] = [medianOf(ours), medianOf(theirs)];
  return { name, unit, against, ours: mine, reference, ratio: medianOf(ratios), spread: spreadOf(ratios) };
}

/** @param {readonly (readonly ["weights" | "optimizer", Uint8Array])[]} sections @param {number} step */
function contentOf(sections, step) {
  const tensors = placeDensely(
    Array.from({ length: 64 }, (_, i) => ({ name: `t${i}`, dtype: "u8", shape: [sectionBytes / 64] })),
  );
  return {
    ...{ job: "bench", lineage: 0, step, version: step, term: 1, groupsWatermark: 0, engineBuild: "bench" },
    ledger: { admitted: 0, trained: 0, aborted: 0, quarantined: 0 },
    sections: sections.map(([name, bytes]) => ({ name, bytes, digest: `${step}` })),
    tensors,
    modelConfig: {},
  };
}

/** @param {string} folder */
async function* diskRows(folder) {
  const sections = [3, 5].map((n, at) => {
    const bytes = Uint8Array.from({ length: sectionBytes }, (_, i) => i * n);
    return /** @type {const} */ ([at === 0 ? "weights" : "optimizer", bytes]);
  });
  // As the processes of a job hash.
  const hashPieces = hasShaInstructions() ? sha256Each : undefined;
  const store = await openCheckpointStore({ root: join(folder, "store"), keep: 1, now: () => new Date(), hashPieces });
  /** @type {Record<"save" | "write" | "clear" | "unlink" | "load" | "read" | "coldLoad" | "coldRead", number[]>} */
  const took = { save: [], write: [], clear: [], unlink: [], load: [], read: [], coldLoad: [], coldRead: [] };
  const all = sections.map(([, bytes]) => bytes);
  const pathOf = (/** @type {number} */ step) => join(folder, `plain-${step}`);
  await writePlain(pathOf(0), all);
  await (await store.save(contentOf(sections, 0), signal)).cleared;
  for (let step = 1; step <= rounds; step++) {
    const plain = pathOf(step);
    await warmPageCache(join(folder, "warm"));
    took.write.push(await secondsOf(() => writePlain(plain, all)));
    took.unlink.push(await secondsOf(() => unlink(pathOf(step - 1))));
    took.read.push(await secondsOf(() => readPlain(plain)));
    const content = contentOf(sections, step);
    const saved = { name: "", path: "", cleared: /** @type {Promise<unknown>} */ (Promise.resolve()) };
    await warmPageCache(join(folder, "warm"));
    took.save.push(await secondsOf(async () => void Object.assign(saved, await store.save(content, signal))));
    took.clear.push(await secondsOf(() => saved.cleared));
    took.load.push(await secondsOf(() => store.load(saved.name)));
    evict([plain, ...(await readdir(saved.path)).map((name) => join(saved.path, name))]);
    took.coldRead.push(await secondsOf(() => readPlain(plain)));
    took.coldLoad.push(await secondsOf(() => store.load(saved.name)));
  }
  const readBack = took.write.map((seconds, i) => seconds + (took.read[i] ?? 0));
  yield { ...row("save", took.save, took.write, "write + fsync"), ratioAim };
  yield row("save", took.save, readBack, "write + fsync + read back");
  yield row("removal of the one before", took.clear, took.unlink, "unlink");
  yield { ...row("load, cold", took.coldLoad, took.coldRead, "plain read, cold"), ratioAim };
  yield row("load, warm", took.load, took.read, "plain read, warm");
}

const job = fileURLToPath(new URL("../jobs/dates.toml", import.meta.url));
const jobSteps = 24;
/** Before this step code is still being compiled. */
const firstStep = 6;
const jobRounds = 3;
/** A trainer stands still for at most 5 % of its step. */
const stallAim = 1.05;

/** Milliseconds of a step of the trainers. @param {number} every */
async function stepMsOf(every) {
  const args = ["--set", `checkpoint.every_steps=${every}`];
  const samples = await runCluster({ file: job, steps: jobSteps, cpus: "0,1", args, deadlineMs: 180_000 });
  return medianOf(samples.filter(({ step }) => step >= firstStep).map(({ stepMs }) => stepMs));
}

async function stallRow() {
  /** @type {{ every: number[], never: number[] }} */
  const took = { every: [], never: [] };
  for (let round = 0; round < jobRounds; round++) {
    took.never.push(await stepMsOf(0));
    took.every.push(await stepMsOf(1));
  }
  const rowOf = row("a step, saved at each", took.every, took.never, "never saved", "ms");
  return { ...rowOf, ratioAim: stallAim };
}

/** Rows of the benchmark. */
export async function* run() {
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-checkpoint-"));
  try {
    yield* diskRows(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  yield await stallRow();
}
