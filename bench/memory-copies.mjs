/**
 * What copies of the training state in memory (`checkpoint.memory_every = 1`) cost a job of six processes: the same job with and without them, in
 * turns, on the same cores. A trainer serves each pull while it computes; a checkpoint actor takes 1 MB a step here.
 */
import { fileURLToPath } from "node:url";
import { medianOf } from "@muster/base";
import { runCluster } from "./distribution/cluster.mjs";
import { spreadOf } from "./lib/stats.mjs";

export const about = "training state in memory at every step, against never";

const file = fileURLToPath(new URL("../jobs/dates.toml", import.meta.url));
const steps = 24;
/** Before this step code is still being compiled. */
const firstStep = 6;
const rounds = 3;
const against = "no copies";
/** A trainer stands still for at most 5 % of its step. */
const stallAim = 1.05;

/** @param {number} every */
async function stepOf(every) {
  const args = ["--set", `checkpoint.memory_every=${every}`];
  const points = (await runCluster({ file, steps, cpus: "0,1", args, deadlineMs: 180_000 })).filter(
    ({ step }) => step >= firstStep,
  );
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last || first === last) throw new Error(`too few steps were seen: ${points.map(({ step }) => step)}`);
  const count = last.step - first.step;
  const cpuOf = (/** @type {string} */ role) => ((last.cpuMs[role] ?? 0) - (first.cpuMs[role] ?? 0)) / count;
  const all = Object.keys(last.cpuMs).reduce((sum, role) => sum + cpuOf(role), 0);
  return {
    trainerMs: medianOf(points.map(({ stepMs }) => stepMs)),
    trainerCpuMs: cpuOf("policy"),
    cpuMs: all,
  };
}

/** @typedef {Awaited<ReturnType<typeof stepOf>>} Step */

export async function* run() {
  /** @type {{ ours: Step, reference: Step }[]} */
  const pairs = [];
  for (let round = 0; round < rounds; round++) pairs.push({ reference: await stepOf(0), ours: await stepOf(1) });
  const row = (
    /** @type {string} */ name,
    /** @type {(step: Step) => number} */ of,
    ratioAim = /** @type {number | null} */ (null),
  ) => {
    const ratios = pairs.map(({ ours, reference }) => of(ours) / of(reference));
    const [ours, reference] = [
      medianOf(pairs.map((pair) => of(pair.ours))),
      medianOf(pairs.map((pair) => of(pair.reference))),
    ];
    return { name, unit: "ms", against, ours, reference, ratioAim, ratio: medianOf(ratios), spread: spreadOf(ratios) };
  };
  yield row("a step of the trainers", ({ trainerMs }) => trainerMs, stallAim);
  yield row("CPU of the trainers in a step", ({ trainerCpuMs }) => trainerCpuMs, stallAim);
  yield row("CPU of all processes in a step", ({ cpuMs }) => cpuMs);
}
