/**
 * Checkpoints on the disk of this host, in turns with what the disk does with the same bytes: a save beside a plain write with fsync, and beside a write,
 * fsync and reading it all back, which is what a save does; a load beside a plain read. Every save and load also computes SHA-256 of each byte. The
 * page cache is not emptied, for either side.
 */
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { medianOf } from "@muster/base";
import { openCheckpointStore } from "@muster/checkpoint";
import { placeDensely } from "@muster/tensors";

export const about = "checkpoints against plain files on the same disk";

const MiB = 2 ** 20;
/** A save has at least 0.85 of the speed of the plain write, and a load of the plain read. */
const ratioAim = 1 / 0.85;
const rounds = 5;
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

/** @param {string} path @param {Uint8Array} into */
async function readPlain(path, into) {
  const file = await open(path, "r");
  for (let at = 0; at < into.length; at += chunkBytes) await file.read(into, at, chunkBytes, at);
  await file.close();
}

/** @param {string} name @param {readonly number[]} ours @param {readonly number[]} theirs @param {string} against */
function row(name, ours, theirs, against) {
  const ratios = ours.map((seconds, i) => seconds / (theirs[i] ?? Number.NaN));
  const ratio = medianOf(ratios);
  const spread = (Math.max(...ratios) - Math.min(...ratios)) / (2 * ratio);
  return {
    name,
    unit: "s",
    against,
    ours: medianOf(ours),
    reference: medianOf(theirs),
    ratio,
    spread,
  };
}

/** Rows of the benchmark. */
export async function* run() {
  const folder = await mkdtemp(join(tmpdir(), "muster-bench-checkpoint-"));
  try {
    const [weights, optimizer] = [3, 5].map((n) => Uint8Array.from({ length: sectionBytes }, (_, i) => i * n));
    const sections = /** @type {const} */ ([
      ["weights", weights],
      ["optimizer", optimizer],
    ]);
    const tensors = placeDensely(
      Array.from({ length: 64 }, (_, i) => ({ name: `t${i}`, dtype: "u8", shape: [sectionBytes / 64] })),
    );
    const store = await openCheckpointStore({ root: join(folder, "store"), keep: 1, now: () => new Date() });
    const plain = join(folder, "plain");
    const into = new Uint8Array(2 * sectionBytes);
    /** @type {Record<"save" | "load" | "write" | "read", number[]>} */
    const took = { save: [], load: [], write: [], read: [] };
    for (let step = 1; step <= rounds; step++) {
      const content = {
        ...{ job: "bench", lineage: 0, step, version: step, term: 1, groupsWatermark: 0, engineBuild: "bench" },
        ledger: { admitted: 0, trained: 0, aborted: 0, quarantined: 0 },
        sections: sections.map(([name, bytes]) => ({ name, bytes: bytes ?? into, digest: `${step}` })),
        tensors,
        modelConfig: {},
      };
      took.write.push(
        await secondsOf(() =>
          writePlain(
            plain,
            sections.map(([, bytes]) => bytes ?? into),
          ),
        ),
      );
      took.read.push(await secondsOf(() => readPlain(plain, into)));
      let name = "";
      took.save.push(await secondsOf(async () => ({ name } = await store.save(content, signal))));
      took.load.push(await secondsOf(() => store.load(name)));
    }
    yield { ...row("save", took.save, took.write, "write + fsync"), ratioAim };
    yield row(
      "save",
      took.save,
      took.write.map((seconds, i) => seconds + (took.read[i] ?? 0)),
      "write + fsync + read back",
    );
    yield { ...row("load", took.load, took.read, "plain read"), ratioAim };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
