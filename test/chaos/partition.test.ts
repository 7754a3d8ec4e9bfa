/**
 * A job over two hosts whose network is cut in every way, one after the other, and a `muster chaos` that is killed meanwhile. Each cut takes about
 * twenty seconds, because it outlasts the dead time-out; continuous integration makes a third of them at each commit.
 */
import { execFileSync } from "node:child_process";
import {
  makeTempDirectory,
  processesNaming,
  secondHostMissing,
  spawnMuster,
  type TempDirectory,
  waitFor,
} from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";

/** The keys of the result that the test looks at. */
interface Result {
  readonly ok: boolean;
  readonly faults_total: number;
  readonly faults_found: readonly string[];
  readonly first_difference: number | null;
  readonly weights_hash: string;
  readonly hash_of_quiet_run: string;
}

const allWays = 9;
/** Number of the commit in continuous integration; `null` elsewhere. */
const turn = process.env.MUSTER_CI_TURN === undefined ? null : Number(process.env.MUSTER_CI_TURN);
const ways = turn === null ? allWays : allWays / 3;
/** Time-outs are short, so that every cut outlasts them in seconds. */
const settings = [
  "batch.groups_per_step=16",
  "evaluation.prompts=64",
  "checkpoint.every_steps=10",
  "timing.heartbeat_interval=400ms",
  "timing.suspect_after=1s",
  "timing.dead_after=4s",
].flatMap((one) => ["--set", one]);
/** It names the way to begin with. */
const seed = turn === null ? Number(process.env.MUSTER_CHAOS_SEED ?? Date.now() % 2 ** 31) : turn * ways;
const minutesMax = 8;

const missing = secondHostMissing();
beforeEach((context) => context.skip(missing !== null, missing ?? ""));

let runs: TempDirectory;
beforeAll(async () => {
  runs = await makeTempDirectory();
});
afterAll(async () => {
  for (const { pid } of processesNaming(runs.path)) process.kill(pid, "SIGKILL");
  await runs.remove();
});

const left = () => processesNaming(runs.path).map(({ pid, args }) => `${pid} ${args.join(" ")}`);
const namespaces = () => execFileSync("ip", ["netns", "list"], { encoding: "utf8" });
const partitions = (...args: string[]) =>
  spawnMuster(["chaos", "--runs", runs.path, "--faults", "partition", "--seed", String(seed), ...settings, ...args]);

it(
  `a host that is cut off in ${ways} of ${allWays} ways changes no bit of the weights (seed ${seed})`,
  async () => {
    const run = await partitions("--count", String(ways), "--minutes", String(minutesMax), "--job", "cut", "--json");
    await run.exited;
    const line = run.lines.findLast((one) => one.startsWith("{"));
    if (line === undefined) throw new Error(run.lines.slice(-12).join("\n"));
    const result = JSON.parse(line) as Result;
    expect(result, line).toMatchObject({ faults_found: [], ok: true, first_difference: null, faults_total: ways });
    expect(result.weights_hash).toBe(result.hash_of_quiet_run);
    expect(left()).toEqual([]);
    expect(namespaces()).not.toContain(`much${run.pid}`);
  },
  (minutesMax + 6) * 60_000,
);

it("kill -9 of muster chaos itself leaves no process behind", async () => {
  const run = await partitions("--minutes", "5", "--job", "killed");
  await run.waitForLine("a second host", 50_000);
  run.signal("SIGKILL");
  await run.exited;
  await waitFor(() => left().length === 0, { what: "no process left", timeoutMs: 20_000, detail: left });
  expect(namespaces()).toContain(`much${run.pid}`);
});
