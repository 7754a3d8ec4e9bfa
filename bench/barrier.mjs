/** 64 members at a barrier: all arrive at once, until each of them knows, through the broker, the controller and its journal on disk. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { connectJob } from "@muster/client";

export const about =
  "64 members at a barrier, each a client of its own, against the aim; the script sleeps 170 s an iteration";

const muster = fileURLToPath(new URL("../packages/cli/bin/muster.mjs", import.meta.url));
const file = fileURLToPath(new URL("../jobs/dates.toml", import.meta.url));
const ranks = 64;
const rounds = 50;
const job = "barrier";
/** What run.sh sleeps in each iteration, whatever its nodes do. */
const sleptMs = 170_000;
/** Barriers of an iteration: phases 0 to 13. */
const phases = 14;

export async function* run() {
  const runs = mkdtempSync(join(tmpdir(), "muster-bench-"));
  // Nobody gets the device that replicas wait for, so the job trains nothing: only the barriers are measured.
  const waiting = ["devices.policy=1", "devices.rollout=1", "replicas.checkpoint=0"].flatMap((set) => ["--set", set]);
  const none = ["--devices", "none", ...waiting];
  const child = spawn(process.execPath, [muster, "run", file, "--job", job, "--runs", runs, "--quiet", ...none], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  /** @type {Awaited<ReturnType<typeof connectJob>>[]} */
  const clients = [];
  try {
    const { url, credentials } = await connectionOf(join(runs, job, "credentials", "operator.json"));
    for (let rank = 0; rank < ranks; rank++)
      clients.push(await connectJob({ url, job, credentials: credentials.operator, id: `rank-${rank}` }));
    await barrier(clients, 0);
    const latencies = [];
    for (let round = 1; round <= rounds; round++) latencies.push(...(await barrier(clients, round)));
    latencies.sort((a, b) => a - b);
    const p99 = latencies[Math.floor(latencies.length * 0.99)] ?? Number.NaN;
    yield rowOf({ name: `barrier of ${ranks} members, p99`, value: p99, unit: "ms", aim: 100 });
    yield rowOf({
      name: `${phases} barriers at p99, of what run.sh sleeps`,
      value: (100 * phases * p99) / sleptMs,
      unit: "%",
      aim: 1,
    });
  } finally {
    for (const client of clients) await client.close();
    child.kill("SIGINT");
    await new Promise((resolve) => child.once("exit", resolve));
    rmSync(runs, { recursive: true, force: true });
  }
}

/** All arrive at once. @param {Awaited<ReturnType<typeof connectJob>>[]} clients @param {number} iteration */
async function barrier(clients, iteration) {
  const began = performance.now();
  return await Promise.all(
    clients.map(async (client, rank) => {
      const arrival = { epoch: 0, iteration, phase: 0, rank, ranks };
      const end = await client.arrive(arrival, { timeoutMs: 60_000 });
      if (!end || !("outcome" in end) || end.outcome !== "whole")
        throw new Error(`rank ${rank}: ${JSON.stringify(end)}`);
      return performance.now() - began;
    }),
  );
}

/** @param {string} path */
async function connectionOf(path) {
  for (let i = 0; i < 600 && !existsSync(path); i++) await sleep(100);
  return JSON.parse(readFileSync(path, "utf8"));
}

/** @param {{ name: string, value: number, unit: string, aim: number }} row */
function rowOf({ name, value, unit, aim }) {
  return { name, against: "aim", ours: value, reference: aim, unit, ratio: value / aim, spread: 0, aim };
}
