/**
 * Compares a way of doing something with a reference in the same process: rounds of both in turn, and the median of the rounds'
 * ratios. What disturbs the machine disturbs both.
 */
import { medianOf } from "@muster/base";
import { spreadOf } from "./stats.mjs";

/**
 * @typedef {{ name: string, unit: string, ours: number, reference: number, ratio: number, spread: number, against: string }} Row
 * `ours` and `reference` in `unit` per piece of work; `ratio` = ours / reference, lower is better; `spread` of the ratio.
 */

/**
 * @typedef {{ name: string, against: string, ours: Run, reference: Run, clock?: "cpu" | "wall", rounds?: number, roundMs?: number,
 *   unit?: "µs" | "ms" }} Comparison
 * @typedef {(pieces: number) => void | Promise<void>} Run Does `pieces` pieces of work.
 */

const clocks = {
  /** CPU time of this process: blind to whoever else uses the machine. For work that does not wait. */
  cpu() {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  },
  /** For work that waits for a disk, a socket or a thread. */
  wall: () => performance.now(),
};

/** @param {Comparison} comparison @returns {Promise<Row>} */
export async function compare(comparison) {
  const { name, against, ours, reference, clock = "cpu", rounds = 25, roundMs = 40, unit = "µs" } = comparison;
  const now = clocks[clock];
  const sizes = { ours: await calibrate(ours, now, roundMs), reference: await calibrate(reference, now, roundMs) };
  const times = { ours: /** @type {number[]} */ ([]), reference: /** @type {number[]} */ ([]) };
  for (let round = 0; round < rounds; round++) {
    times.ours.push(await timeOf(ours, now, sizes.ours));
    times.reference.push(await timeOf(reference, now, sizes.reference));
  }
  const ratios = times.ours.map((ms, round) => ms / (times.reference[round] ?? Number.NaN));
  const scale = unit === "µs" ? 1000 : 1;
  return {
    name,
    unit,
    against,
    ours: medianOf(times.ours) * scale,
    reference: medianOf(times.reference) * scale,
    ratio: medianOf(ratios),
    spread: spreadOf(ratios),
  };
}

/** How many pieces of work fill a round; warms up on the way. @param {Run} run @param {() => number} now @param {number} roundMs */
async function calibrate(run, now, roundMs) {
  for (let pieces = 1; ; pieces *= 2) {
    const startedMs = now();
    await run(pieces);
    if (now() - startedMs >= roundMs / 2 || pieces >= 2 ** 22) return pieces;
  }
}

/** Milliseconds per piece of work. @param {Run} run @param {() => number} now @param {number} pieces */
async function timeOf(run, now, pieces) {
  const startedMs = now();
  await run(pieces);
  return (now() - startedMs) / pieces;
}
