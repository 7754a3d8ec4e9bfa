/**
 * A state from Muster into a worker and back: written to shared memory, copied there by the worker into its own, and the other way, which are four copies
 * of its bytes; beside four copies by one thread with nothing in the way. And what a call costs by itself.
 */
import { fileURLToPath } from "node:url";
import { medianOf, silentLogger } from "@muster/base";
import { measureCopies } from "@muster/collectives";
import { EngineRegistry, inlineState, openRewardOf } from "@muster/engine";
import { workerAdapterOf } from "@muster/engine/worker";
import { workerMemory } from "../packages/cli/dist/composition/worker-memory.js";
import { spreadOf } from "./lib/stats.mjs";

export const about =
  "a state into a worker and back against as many copies, and the cost of a call to it and to a module";

const workerAdapter = workerAdapterOf(process.env, workerMemory);
const bytes = 256 * 2 ** 20;
const rounds = 7;
const calls = 2000;
const overheadAimMs = 0.2;
const shareAim = 0.8;

const pathOf = (/** @type {string} */ path) => fileURLToPath(new URL(path, import.meta.url));

export async function* run() {
  yield await copies();
  yield await overhead();
  yield await judged();
}

/** @param {number} stateBytes */
async function open(stateBytes) {
  const options = workerAdapter.schema.parse({
    command: `python3 '${pathOf("lib/copy-worker.py")}'`,
    environment: `'PYTHONPATH=${pathOf("../python")}' PYTHONDONTWRITEBYTECODE=1 COPY_BYTES=${stateBytes}`,
  });
  const choice = { adapter: "worker", options };
  const config = /** @type {any} */ ({ engine: { policy: choice, rollout: choice } });
  const needs = { vocab: 8, maxContext: 8, tokenizer: "" };
  return await new EngineRegistry([["worker", workerAdapter]]).openPolicy(config, needs);
}

async function copies() {
  const engine = await open(bytes);
  try {
    const state = { weights: new Uint8Array(bytes).fill(7), optimizer: new Uint8Array() };
    const source = { ...inlineState(state), weights: { bytes, copyTo: async () => {} } };
    const shares = [];
    const ours = [];
    const limits = [];
    await there(engine, source);
    for (let round = 0; round < rounds; round++) {
      const [limit] = await measureCopies({ bytes, targets: 4, threads: 1, samples: 1 });
      const startedMs = performance.now();
      await there(engine, source);
      ours.push(performance.now() - startedMs);
      limits.push((limit?.seconds ?? Number.NaN) * 1000);
      shares.push((limits.at(-1) ?? Number.NaN) / (ours.at(-1) ?? Number.NaN));
    }
    const time = medianOf(ours);
    const share = medianOf(shares);
    return {
      name: "256 MiB into a worker and back",
      unit: "ms",
      against: "four copies by one thread",
      ours: time,
      reference: medianOf(limits),
      ratio: 1 / share,
      ratioAim: 1 / shareAim,
      spread: spreadOf(shares),
      note: `${(share * 100).toFixed(0)} % of the limit, aim ${shareAim * 100} %; ${((4 * bytes) / time / 1e6).toFixed(1)} GB/s`,
    };
  } finally {
    await engine.close();
  }
}

/**
 * There by a restore, back by an initialization, which in this worker changes nothing.
 *
 * @param {Awaited<ReturnType<typeof open>>} engine @param {import("@muster/engine").StateSource} source
 */
async function there(engine, source) {
  await engine.restore(source);
  await engine.initialize({ kind: "seed", seed: 1 });
}

/** A row of times in ms, of which the first quarter warms up. @param {string} name @param {readonly number[]} times */
function overheadRow(name, times) {
  const counted = times.slice(times.length / 4);
  const ours = medianOf(counted);
  const of = { ours, reference: overheadAimMs, ratio: ours / overheadAimMs, spread: spreadOf(counted) };
  return { name, unit: "ms", against: "aim", aim: overheadAimMs, ...of };
}

async function overhead() {
  const engine = await open(4);
  try {
    const source = inlineState({ weights: new Uint8Array(4), optimizer: new Uint8Array() });
    const times = [];
    for (let call = 0; call < calls; call++) {
      const startedMs = performance.now();
      await engine.restore(source);
      times.push(performance.now() - startedMs);
    }
    return overheadRow("a call of four bytes", times);
  } finally {
    await engine.close();
  }
}

/** Responses of 64 tokens, 256 at the same time, whose reward is a module in a process of its own. */
async function judged() {
  const task = { name: "addition", reward: pathOf("lib/one-reward.mjs") };
  const config = /** @type {any} */ ({ task, timing: { rewardMs: 5_000 }, limits: {} });
  const reward = await openRewardOf({ config, env: process.env, logger: silentLogger });
  try {
    const prompt = { ids: new Int32Array(16), text: "12+34=", answer: "46" };
    const input = { prompt, responseIds: new Int32Array(64), responseText: "46$", finish: "stop" };
    const { signal } = new AbortController();
    const times = [];
    for (let round = 0; round < 40; round++) {
      const startedMs = performance.now();
      await Promise.all(Array.from({ length: 256 }, () => reward.score(input, signal)));
      times.push((performance.now() - startedMs) / 256);
    }
    return overheadRow("a response judged by a module", times);
  } finally {
    await reward.close?.();
  }
}
