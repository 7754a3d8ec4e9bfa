/**
 * Replicas of several processes on real processes: each takes its own rows of each version, one is killed and the replica comes back whole, with the digests
 * of the quiet run; and over two nodes.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { needsOfTask, taskOf } from "@muster/data";
import { processesNaming, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ranksJob } from "./support/ranks-job.ts";
import { expectBalanced, openRuns, type Runs } from "./support/small-job.ts";

let runs: Runs;
beforeAll(async () => {
  runs = await openRuns();
});
afterAll(() => runs.close());

const settings = (...more: readonly string[]): readonly string[] =>
  ranksJob(runs.path, "init_replicas.policy=1", "processes.rollout=4", ...more);

interface Rank {
  readonly pid: number;
  readonly life: number;
  readonly rank: number;
  readonly env: Readonly<Record<string, string>>;
}

/** The processes of a replica, by the kernel's word of what they were told. */
function ranksOf(id: string): readonly Rank[] {
  const found = processesNaming(runs.path).flatMap(({ pid, args }) => {
    if (!args.includes("rollout") || !args.includes(id)) return [];
    const env = environOf(pid);
    return env.RANK === undefined ? [] : [{ pid, env, rank: Number(env.RANK), life: Number(env.MUSTER_REPLICA_LIFE) }];
  });
  return found.sort((a, b) => a.rank - b.rank);
}

/** Empty when the process has ended since it was listed. */
function environOf(pid: number): Readonly<Record<string, string>> {
  try {
    const lines = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
    return Object.fromEntries(lines.map((line) => line.split("=", 2)));
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return {};
    throw error;
  }
}

interface Shard {
  readonly lineage: number;
  readonly version: number;
  readonly bytes: number;
  readonly digest: string;
}

/** What a process of `rollout-0` took of each version, by its own log. */
function shardsOf({ directory }: { readonly directory: string }, rank: number): readonly Shard[] {
  const log = readFileSync(join(directory, "logs", rank === 0 ? "rollout-0.log" : `rollout-0.${rank}.log`), "utf8");
  const lines = log.split("\n").filter((line) => line.includes('"shard arrived"'));
  return lines.map((line) => JSON.parse(line) as Shard);
}

const whole = (id: string, life: number): boolean => {
  const ranks = ranksOf(id);
  return ranks.length === 4 && ranks.every((each) => each.life === life);
};

test("one of four processes is killed: the replica is one loss, comes back whole, and the weights are those of the quiet run", async () => {
  const args = ["--steps", "20", "--policy", "1", "--rollout", "1", ...settings("job.seed=7")];
  const quietRun = await runs.start("ranks-quiet", ...args);
  const quiet = await quietRun.ended();
  const run = await runs.start("ranks-killed", ...args);
  await run.waitForEvent("step.committed", undefined, 60_000);
  await waitFor(() => whole("rollout-0", 1), {
    what: "four ranks of life 1",
    timeoutMs: 30_000,
    detail: () => ranksOf("rollout-0"),
  });
  const first = ranksOf("rollout-0");
  expect(
    first.map(({ env }) => [env.RANK, env.WORLD_SIZE, env.LOCAL_RANK, env.LOCAL_WORLD_SIZE, env.NODE_RANK]),
  ).toEqual([0, 1, 2, 3].map((rank) => [`${rank}`, "4", `${rank}`, "4", "0"]));
  expect(new Set(first.map(({ env }) => `${env.MASTER_ADDR}:${env.MASTER_PORT}`)).size).toBe(1);
  process.kill(first[3]?.pid ?? 0, "SIGKILL");
  const died = await run.waitForEvent("member.died", ({ id }) => id === "rollout-0", 30_000);
  // Where the node is late to look at its children, it sees rank 0 first, which ends when it misses one of the others; that names it, too.
  expect(died.evidence).toMatch(
    /^rank 3 of rollout-0 on \S+ \(process \d+\) ended with SIGKILL$|^rank 0 of rollout-0 .* ended with code 1: rank 3 of rollout-0 on \S+ is gone$/,
  );
  await waitFor(() => whole("rollout-0", 2), {
    what: "four ranks of life 2",
    timeoutMs: 30_000,
    detail: () => ranksOf("rollout-0"),
  });
  expect(ranksOf("rollout-0")[0]?.env.MASTER_PORT).not.toBe(first[0]?.env.MASTER_PORT);
  const summary = await run.ended();
  expectBalanced(summary);
  expect(summary).toMatchObject({ lost: 0, doubled: 0, weights_hash: quiet.weights_hash });
  expect(run.events("member.died").filter(({ id }) => id === "rollout-0")).toHaveLength(1);
  const vocab = needsOfTask(taskOf("dates")).vocab;
  for (const rank of [0, 1, 2, 3]) {
    const expected = new Map(shardsOf(quietRun, rank).map(({ version, digest }) => [version, digest]));
    const taken = shardsOf(run, rank);
    expect(expected.size).toBeGreaterThan(10);
    // Its own rows and nothing else, in both lives, and the same bits as where nobody died.
    for (const { version, bytes, digest } of taken) {
      expect(bytes).toBe(4 * (Math.floor(vocab / 4) + (rank < vocab % 4 ? 1 : 0)));
      if (expected.has(version)) expect([version, digest]).toEqual([version, expected.get(version)]);
    }
    expect(taken.filter(({ version }) => expected.has(version)).length).toBeGreaterThan(10);
  }
}, 120_000);

test("ranks find room on two nodes, each with a device of its own; one node is killed, and all of the replica begins again elsewhere", async () => {
  const set = settings("devices.rollout=1", "timing.heartbeat_interval=500ms", "timing.dead_after=4s");
  const args = ["--steps", "100000", "--policy", "1", "--rollout", "1", "--devices", "0", ...set];
  const run = await runs.start("ranks-nodes", ...args);
  const isShort = ({ alarm }: Readonly<Record<string, unknown>>) => alarm === "capacity";
  const { detail } = await run.waitForEvent("alarm.raised", isShort, 30_000);
  expect(detail).toContain(
    "rollout: 1 waits for room for 4 processes of 1 device (processes.rollout = 4, devices.rollout = 1; room: node-0 1); start a node",
  );
  expect(ranksOf("rollout-0")).toEqual([]);
  const node = (id: string, devices: string) =>
    runs.muster(
      "node",
      "--job",
      run.job,
      "--id",
      id,
      "--capacity",
      "policy=0,checkpoint=0,rollout=4",
      "--devices",
      devices,
    );
  const large = await node("large", "1-3");
  const isThere = () => ranksOf("rollout-0").length === 4;
  const seen = { timeoutMs: 30_000, detail: () => ranksOf("rollout-0") };
  await waitFor(isThere, { what: "four ranks on two nodes", ...seen });
  const first = ranksOf("rollout-0");
  expect(first.map(({ env }) => env.CUDA_VISIBLE_DEVICES).sort()).toEqual(["0", "1", "2", "3"]);
  await run.waitForEvent("step.committed", undefined, 30_000);
  await node("spare", "4-7");
  await run.waitForEvent("member.joined", ({ id }) => id === "spare");
  const status = await runs.muster("status", "--job", run.job);
  expect((await status.exited).code).toBe(0);
  expect(status.lines.join("\n")).toContain("4 of 4 ranks up");

  const { pid } = large;
  process.kill(pid, "SIGKILL");
  const isNew = () => isThere() && ranksOf("rollout-0").every((each) => !first.some((old) => old.pid === each.pid));
  await waitFor(isNew, { what: "four new ranks", ...seen });
  expect(ranksOf("rollout-0").map(({ env }) => env.CUDA_VISIBLE_DEVICES)).toEqual(["4", "5", "6", "7"]);
  const stop = await runs.muster("stop", "--job", run.job);
  expect((await stop.exited).code).toBe(0);
  expect(await run.ended()).toMatchObject({ lost: 0, doubled: 0 });
}, 120_000);
