/** Runs a whole job through the command line, on given cores, and measures it from outside. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { processTree } from "../lib/processes.mjs";

const muster = fileURLToPath(new URL("../../packages/cli/bin/muster.mjs", import.meta.url));
const lookEveryMs = 25;

/**
 * @typedef {{ step: number, atMs: number, reward: number, stepMs: number, computeMs: number, reduceMs: number, cpuMs: Record<string, number> }} Sample
 * When the commit was heard, what the policies said of the step, and the CPU time of each role until shortly after.
 */

/**
 * @param {{ file: string, steps: number, cpus: string, args?: readonly string[], deadlineMs?: number, env?: Record<string, string> }} options
 * @returns {Promise<Sample[]>} One sample per committed step that was seen.
 */
export async function runCluster({ file, steps, cpus, args = [], deadlineMs = 60_000, env = {} }) {
  const runs = await mkdtemp(join(tmpdir(), "muster-bench-"));
  const job = `bench-${process.pid}`;
  const command = ["-c", cpus, process.execPath, muster, "run", file, "--quiet", "--job", job, "--runs", runs];
  const options = ["--steps", String(steps), "--set", "evaluation.every_steps=0", "--set", "checkpoint.every_steps=0"];
  const child = spawn("taskset", [...command, ...options, ...args], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, ...env },
  });
  let complaint = "";
  child.stderr.on("data", (chunk) => {
    complaint = `${complaint}${chunk}`.slice(-2_000);
  });
  const exited = new Promise((resolve, reject) => child.once("error", reject).once("exit", resolve));
  const patience = setTimeout(() => child.kill("SIGTERM"), deadlineMs);
  try {
    const samples = await watch({ child, events: join(runs, job, "events.jsonl"), steps });
    const code = await exited;
    if (samples.length < steps / 2)
      throw new Error(`the run saw ${samples.length} steps, exit code ${code}:\n${complaint}`);
    return samples;
  } finally {
    clearTimeout(patience);
    await rm(runs, { recursive: true, force: true });
  }
}

/** @param {{ child: import("node:child_process").ChildProcess, events: string, steps: number }} run */
async function watch({ child, events, steps }) {
  /** @type {Sample[]} */
  const samples = [];
  while (child.exitCode === null && child.signalCode === null) {
    const lines = existsSync(events) ? (await readFile(events, "utf8")).split("\n").slice(0, -1) : [];
    const last = lines.filter((line) => line.includes('"step.committed"')).at(-1);
    const { at_ms: atMs, body = {} } = last ? JSON.parse(last) : {};
    const { step = 0, reward, stepMs, computeMs, reduceMs } = body;
    if (step > (samples.at(-1)?.step ?? 0))
      samples.push({ step, atMs, reward, stepMs, computeMs, reduceMs, cpuMs: cpuByRole(child.pid ?? 0) });
    if (samples.at(-1)?.step === steps) break;
    await sleep(lookEveryMs);
  }
  return samples;
}

/** @param {number} root */
function cpuByRole(root) {
  /** @type {Record<string, number>} */
  const byName = {};
  for (const { command, cpuMs } of processTree(root)) {
    const name = /nats-server/.test(command) ? "nats-server" : (/muster\.mjs (\w+)/.exec(command)?.[1] ?? "other");
    byName[name] = (byName[name] ?? 0) + cpuMs;
  }
  return byName;
}
