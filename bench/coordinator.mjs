/** The coordinator of the checkpoint service with 1,000 ranks: joining all at once, and the heartbeats of all of them. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const about = "1,000 ranks at the coordinator of the checkpoint service, against the aims";

const muster = fileURLToPath(new URL("../packages/cli/bin/muster.mjs", import.meta.url));
const ranks = 1_000;
/** As the document has it: every rank every five seconds. */
const intervalMs = 5_000;
const intervals = 3;
/** Linux counts processor time in hundredths of a second for programs. */
const msPerClockTick = 10;
const agent = new Agent({ keepAlive: true, maxSockets: 64 });

export async function* run() {
  const state = mkdtempSync(join(tmpdir(), "muster-bench-"));
  const child = spawn(process.execPath, [muster, "gateway", "--json", "--port", "0", "--state", state], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const [line] = await once(child.stdout, "data");
    const url = JSON.parse(String(line)).url;
    const joined = performance.now();
    const body = (/** @type {number} */ port) => JSON.stringify({ role_name: "actor", ip: "10.0.0.1", port });
    await Promise.all(Array.from({ length: ranks }, (_, i) => call(url, "POST", "/register", body(1 + i))));
    const joinMs = performance.now() - joined;
    yield rowOf({
      name: `${ranks} ranks join at once, each on disk before its answer`,
      value: joinMs,
      unit: "ms",
      aim: 5_000,
    });
    const cpuBefore = cpuMsOf(child.pid);
    const began = performance.now();
    const latencies = await heartbeats(url);
    const cpuShare = (100 * (cpuMsOf(child.pid) - cpuBefore)) / (performance.now() - began);
    const p99 = latencies.sort((a, b) => a - b)[Math.floor(latencies.length * 0.99)] ?? Number.NaN;
    yield rowOf({ name: `heartbeat of ${ranks} ranks, p99`, value: p99, unit: "ms", aim: 50 });
    yield rowOf({ name: `heartbeats of ${ranks} ranks, of one core`, value: cpuShare, unit: "%", aim: 25 });
  } finally {
    child.kill("SIGKILL");
    agent.destroy();
    rmSync(state, { recursive: true, force: true });
  }
}

/** All ranks beat at their own times, spread over the interval. @param {string} url */
async function heartbeats(url) {
  /** @type {number[]} */
  const latencies = [];
  const one = async (/** @type {number} */ rank) => {
    await sleep((rank * intervalMs) / ranks);
    for (let i = 0; i < intervals; i++) {
      const sent = performance.now();
      await call(url, "GET", `/heartbeat?role=actor&rank=${rank}`);
      latencies.push(performance.now() - sent);
      await sleep(Math.max(0, intervalMs - (performance.now() - sent)));
    }
  };
  await Promise.all(Array.from({ length: ranks }, (_, rank) => one(rank)));
  return latencies;
}

/**
 * @param {string} url
 * @param {string} method
 * @param {string} path
 * @param {string} [body]
 */
function call(url, method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const sent = request(url + path, { method, agent, headers }, (answer) => {
      answer.resume();
      answer.once("end", () =>
        answer.statusCode === 200 ? resolve(null) : reject(new Error(`${path} was answered with ${answer.statusCode}`)),
      );
    });
    sent.once("error", reject);
    sent.end(body);
  });
}

/** Processor time of a process so far. @param {number | undefined} pid */
function cpuMsOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) * msPerClockTick;
}

/** @param {{ name: string, value: number, unit: string, aim: number }} row */
function rowOf({ name, value, unit, aim }) {
  return { name, against: "aim", ours: value, reference: aim, unit, ratio: value / aim, spread: 0, aim };
}
