/**
 * The way of a version through the whole product, from the engine of the trainer into the engines of all samplers, against the raw transfer:
 * the same bytes published and copied into memory of as many processes. Weights and optimizer are published, weights are copied.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { medianOf } from "@muster/base";
import { Member } from "./lib/member.mjs";
import { spreadOf } from "./lib/stats.mjs";
import { runJob } from "./product/job.mjs";

export const about = "a version of 256 MiB from engine to engines, against the raw transfer";

const rollouts = 3;
const jobs = 2;
const steps = 8;
/** The first versions find cold memory. */
const warmUp = 2;

export async function* run() {
  const ours = [];
  const reference = [];
  for (let round = 0; round < jobs; round++) {
    const { passages, sections } = await runJob({ rollouts, steps });
    ours.push(...passages.slice(warmUp).map(({ seconds }) => seconds * 1000));
    reference.push(...(await transfer(sections)));
  }
  const raw = medianOf(reference);
  const ratios = ours.map((ms) => ms / raw);
  yield {
    name: `${rollouts} samplers serve the new version`,
    unit: "ms",
    against: "raw transfer",
    ours: medianOf(ours),
    reference: raw,
    ratio: medianOf(ratios),
    spread: spreadOf(ratios),
  };
}

/** @param {Record<string, number>} sections Bytes by name. @returns {Promise<number[]>} Milliseconds of each version after the first ones. */
async function transfer(sections) {
  const socketDir = await mkdtemp(join(tmpdir(), "muster-bench-"));
  const script = new URL("product/member.mjs", import.meta.url);
  const source = new Member(script);
  const readers = Array.from({ length: rollouts }, () => new Member(script));
  try {
    const holders = await source.call("open", { member: "source", socketDir, sections, publishes: true });
    const { weights } = sections;
    await Promise.all(readers.map((reader) => reader.call("open", { sections: { weights }, publishes: false })));
    const took = [];
    for (let version = 1; version <= steps; version++) {
      const id = { lineage: 0, version };
      const startedAt = performance.now();
      const published = await source.call("publish", { id });
      await Promise.all(readers.map((reader) => reader.call("pull", { id, sections: published, holders })));
      took.push(performance.now() - startedAt);
    }
    return took.slice(warmUp);
  } finally {
    for (const member of [source, ...readers]) member.end();
    await rm(socketDir, { recursive: true, force: true });
  }
}
