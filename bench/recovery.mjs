/**
 * How long a job takes to recover, by kind of fault: thirty of each, one at a time, with nothing else wrong. Some twenty minutes. The figures mean little on a loaded machine: the load average is beside each.
 */
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const about = "time until the job goes on after a fault, against the aim";

const muster = fileURLToPath(new URL("../packages/cli/bin/muster.mjs", import.meta.url));
/** Dead time-out of a trainer; a sampler has half as long again. Shorter than the default, so that thirty freezes take minutes. */
const deadMs = 2_000;
const samplerDeadMs = deadMs * 1.5;
/** Faults of each kind. */
const count = 30;
const settings = [
  ...["batch.groups_per_step=16", "evaluation.every_steps=0", "checkpoint.every_steps=10", "optimizer.lr=0.0003"],
  ...["timing.heartbeat_interval=200ms", "timing.suspect_after=500ms", `timing.dead_after=${deadMs}ms`],
  // Whoever is evicted again and again would wait longer and longer to be admitted; here that is the plan and no fault of his.
  ...["health.probe_timeout=150ms", "health.readmit_after=1ms"],
].flatMap((one) => ["--set", one]);

/** What to do, and what to compare with which aim. */
const series = [
  {
    faults: "kill.rollout,kill.policy,freeze.rollout,freeze.policy",
    pauseSeconds: 0,
    minutes: 8,
    rows: [
      { kind: "kill.rollout", name: "sampler, SIGKILL: its work taken over, p99", at: "p99_ms", aimMs: 2_000 },
      { kind: "kill.policy", name: "trainer, SIGKILL: next commit, p50", at: "p50_ms", aimMs: 1_000 },
      { kind: "kill.policy", name: "trainer, SIGKILL: next commit, p99", at: "p99_ms", aimMs: 5_000 },
      {
        kind: "freeze.rollout",
        name: "sampler, SIGSTOP: its work taken over, p99",
        at: "p99_ms",
        aimMs: samplerDeadMs * 1.2,
      },
      { kind: "freeze.policy", name: "trainer, SIGSTOP: next commit, p99", at: "p99_ms", aimMs: deadMs * 1.2 },
    ],
  },
  {
    faults: "broker,controller,node",
    // In turns, so that each lives for more than ten seconds: `muster run` gives up what ends sooner six times in a row.
    pauseSeconds: 5,
    minutes: 15,
    rows: [
      { kind: "broker.broker", name: "nats-server, SIGKILL: next commit, p99", at: "p99_ms", aimMs: 5_000 },
      {
        kind: "controller.controller",
        name: "controller, SIGKILL: the next one acts, p50",
        at: "p50_ms",
        aimMs: 5_000,
      },
      {
        kind: "node.node",
        name: "node with all replicas, SIGKILL: next commit, p99",
        at: "p99_ms",
        aimMs: 5_000,
      },
    ],
  },
];

export async function* run() {
  const runs = await mkdtemp(join(tmpdir(), "muster-bench-"));
  try {
    for (const { faults, pauseSeconds, minutes, rows } of series) {
      const times = ["--count", String(count), "--pause", String(pauseSeconds), "--minutes", String(minutes)];
      const args = [
        "chaos",
        "--faults",
        faults,
        ...times,
        "--seed",
        "7",
        "--no-quiet-run",
        "--runs",
        runs,
        "--json",
        "--quiet",
        ...settings,
      ];
      const { recovery } = await resultOf(args);
      for (const { kind, name, at, aimMs } of rows) {
        const times = recovery[kind] ?? { n: 0 };
        if (times.n < count) console.error(`${kind}: only ${times.n} of ${count} faults came in ${minutes} min`);
        yield rowOf({ name, times, ours: times[at] ?? Number.NaN, aimMs });
      }
    }
  } finally {
    await rm(runs, { recursive: true, force: true });
  }
}

/**
 * Runs `muster chaos`. It ends with another code when it lost, doubled or changed anything, and the benchmark with it.
 *
 * @param {readonly string[]} args
 */
async function resultOf(args) {
  const { stdout } = await promisify(execFile)(process.execPath, [muster, ...args], { maxBuffer: 1e7 });
  return JSON.parse(stdout.trim().split("\n").at(-1) ?? "{}");
}

/** @param {{ name: string, times: Record<string, number>, ours: number, aimMs: number }} row */
function rowOf({ name, times, ours, aimMs }) {
  const { n, p50_ms, p90_ms, p99_ms, max_ms } = times;
  return {
    ...{ name, against: "aim", unit: "s", ours: ours / 1000, reference: aimMs / 1000, aim: aimMs / 1000 },
    ...{ ratio: ours / aimMs, spread: 0 },
    note: `n ${n}, p50 ${p50_ms} ms, p90 ${p90_ms}, p99 ${p99_ms}, max ${max_ms}; load ${loadavg()[0]?.toFixed(1)}`,
  };
}
