/**
 * The price of distribution: the job `dates` on six processes and a broker against the same training in one process, on the same cores.
 * Both compute the same weights. CPU time per step is the figure to trust on a machine that others use; wall time where none do.
 */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { medianOf } from "@muster/base";
import { countStepMessages, makeTempDirectory, startJobRun } from "@muster/testkit";
import { runCluster } from "./distribution/cluster.mjs";
import { widen } from "./distribution/widen.mjs";
import { spreadOf } from "./lib/stats.mjs";

export const about = "six processes against one, per step, and its durable messages";

const file = fileURLToPath(new URL("../jobs/dates.toml", import.meta.url));
const local = fileURLToPath(new URL("distribution/local.mjs", import.meta.url));
const steps = 20;
/** Before this step code is still being compiled. */
const firstStep = 5;
const rounds = 2;
const against = "one process";
const warmStart = fileURLToPath(new URL("../jobs/warm-start/dates", import.meta.url));
/** A step of the job as it is takes half a second of one core. */
const usual = { sets: [], steps };
/** Two seconds, for four times as many groups. */
const manyGroups = { sets: ["batch.groups_per_step=512"], steps: 12 };
/** The price of distribution, and of a long step. */
const priceAim = 1.3;
const longPriceAim = 1.1;
/** Durable messages of a step, each a synced write of the broker. */
const messagesAim = 30;

/** @typedef {{ step: number, atMs: number, cpuMs: Record<string, number>, reward: number }} Point */

/** @typedef {{ sets: readonly string[], steps: number }} Size Settings that differ from the job's. */

/** @param {string} cpus @param {Size} size */
async function runLocal(cpus, { sets, steps }) {
  const command = ["-c", cpus, process.execPath, local, file, String(steps), ...sets];
  const { stdout } = await promisify(execFile)("taskset", command);
  const lines = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  return lines.map(({ cpuMs, ...line }) => ({ ...line, cpuMs: { [against]: cpuMs } }));
}

/** What a step took between the first point that counts and the last. @param {readonly Point[]} points */
function perStep(points) {
  const first = points.find(({ step }) => step >= firstStep);
  const last = points.at(-1);
  if (!first || !last || first === last) throw new Error(`too few steps were seen: ${points.map(({ step }) => step)}`);
  const count = last.step - first.step;
  const roles = Object.entries(last.cpuMs).map(([role, ms]) => [role, (ms - (first.cpuMs[role] ?? 0)) / count]);
  /** @type {Record<string, number>} */
  const cpuByRole = Object.fromEntries(roles);
  const cpuMs = Object.values(cpuByRole).reduce((sum, ms) => sum + ms, 0);
  return { wallMs: (last.atMs - first.atMs) / count, cpuMs, cpuByRole };
}

/** Two runs that saw other rewards did not do the same work. @param {readonly Point[]} ours @param {readonly Point[]} theirs */
function mustAgree(ours, theirs) {
  for (const { step, reward } of ours) {
    const other = theirs.find((point) => point.step === step)?.reward ?? Number.NaN;
    if (!(Math.abs(reward - other) < 1e-6)) throw new Error(`step ${step}: reward ${reward}, in one process ${other}`);
  }
}

/** @param {string} cpus @param {Size} size */
async function pairsOn(cpus, size) {
  const pairs = [];
  for (let round = 0; round < rounds; round++) {
    const args = size.sets.flatMap((set) => ["--set", set]);
    const job = await runCluster({ file, steps: size.steps, cpus, args, deadlineMs: 120_000 });
    const single = await runLocal("0", size);
    mustAgree(job, single);
    pairs.push({ ours: perStep(job), reference: perStep(single) });
  }
  return pairs;
}

/** @param {string} name @param {readonly { ours: number, reference: number }[]} pairs @param {number | null} ratioAim */
function rowOf(name, pairs, ratioAim = null) {
  const ratios = pairs.map(({ ours, reference }) => ours / reference);
  const [ours, reference] = [medianOf(pairs.map((pair) => pair.ours)), medianOf(pairs.map((pair) => pair.reference))];
  return { name, unit: "ms", against, ours, reference, ratioAim, ratio: medianOf(ratios), spread: spreadOf(ratios) };
}

/** @param {Awaited<ReturnType<typeof pairsOn>>} pairs @param {(side: ReturnType<typeof perStep>) => number} of */
const sides = (pairs, of) => pairs.map(({ ours, reference }) => ({ ours: of(ours), reference: of(reference) }));

/** Durable messages of a step, by stream: a count, whatever else the machine does. */
async function messagesOfStep() {
  const runs = await makeTempDirectory();
  const off = ["evaluation.every_steps=0", "checkpoint.every_steps=0"].flatMap((set) => ["--set", set]);
  const job = await startJobRun({ runs: runs.path, job: "counted", file, args: ["--steps", `${steps + 4}`, ...off] });
  try {
    return await countStepMessages({ ...job, fromStep: firstStep, toStep: steps });
  } finally {
    await job.process.kill();
    await job.process.exited;
    await runs.remove();
  }
}

export async function* run() {
  const counted = await messagesOfStep();
  for (const [stream, ours] of Object.entries(counted))
    yield {
      ...{ name: stream === "total" ? "durable messages of a step" : `durable messages of a step, ${stream}` },
      ...{ unit: "messages", ours, spread: 0 },
      ...(stream === "total"
        ? { against: "the aim", reference: messagesAim, aim: messagesAim, ratio: ours / messagesAim }
        : { against: "no aim", reference: counted.total, ratio: ours / counted.total }),
    };
  const one = await pairsOn("0", usual);
  yield rowOf(
    "CPU of a step, 1 core",
    sides(one, ({ cpuMs }) => cpuMs),
    priceAim,
  );
  for (const role of ["policy", "rollout", "controller", "nats-server"])
    yield rowOf(
      `CPU of a step, 1 core, of it ${role}`,
      one.map(({ ours, reference }) => ({ ours: ours.cpuByRole[role] ?? 0, reference: reference.cpuMs })),
    );
  yield rowOf(
    "wall time of a step, 1 core",
    sides(one, ({ wallMs }) => wallMs),
  );
  const two = await pairsOn("0,1", usual);
  yield rowOf(
    "wall time of a step, 2 cores against 1",
    sides(two, ({ wallMs }) => wallMs),
  );
  yield* rowsOfLong(await wider((sets) => pairsOn("0", { sets, steps: 12 })), "a step of 2 s", longPriceAim);
  yield* rowsOfLong(await pairsOn("0", manyGroups), "a step of 512 groups");
}

/** Two seconds, for a model of twice the width. @template T @param {(sets: readonly string[]) => Promise<T>} measure */
async function wider(measure) {
  const folder = await makeTempDirectory();
  try {
    await widen(warmStart, folder.path);
    const model = ["hidden=128", "ffn=256", "heads=8", "kv_heads=8"].map((size) => `model.${size}`);
    return await measure([`weights.source=folder:${folder.path}`, ...model]);
  } finally {
    await folder.remove();
  }
}

/** @param {Awaited<ReturnType<typeof pairsOn>>} pairs @param {string} what @param {number | null} aim Of the CPU time. */
function* rowsOfLong(pairs, what, aim = null) {
  yield rowOf(
    `CPU of ${what}, 1 core`,
    sides(pairs, ({ cpuMs }) => cpuMs),
    aim,
  );
  yield rowOf(
    `wall time of ${what}, 1 core`,
    sides(pairs, ({ wallMs }) => wallMs),
  );
}
