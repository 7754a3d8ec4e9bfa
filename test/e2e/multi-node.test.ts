/**
 * A job of three hosts that are started with the options of a launcher for several nodes: three network namespaces, between which nothing but TCP
 * leads. One of them is killed in a phase, the master or another. `MUSTER_TEST_PHASES=all` does both in each of them; by hand one phase is taken for
 * each, and continuous integration takes one after the other of them all. It takes half a minute for each job: eleven processes start on three hosts,
 * and some of them a second time.
 */
import { mkdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openTestHosts, type TestHosts } from "@muster/runtime";
import { type ActorProcess, type JobRun, processesNaming, spawnActor, waitFor } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, type TestContext, test } from "vitest";
import { digestOfLocalTraining, expectBalanced, openRuns, type Runs } from "./support/small-job.ts";
import { turn } from "./support/turn.ts";

const muster = fileURLToPath(new URL("../../packages/cli/bin/muster.mjs", import.meta.url));
const token = "0123456789abcdef0123456789abcdef";
const nodes = ["--num-nodes", "3", "--rank-weights", "2,1,1"];
const steps = 24;

let runs: Runs;
let network: ReturnType<typeof openTestHosts>;
beforeAll(async () => {
  process.env.MUSTER_JOIN_TOKEN = token;
  runs = await openRuns();
  network = openTestHosts({ count: 2, gateway: true });
});
afterAll(async () => {
  delete process.env.MUSTER_JOIN_TOKEN;
  await runs.close();
  if (!("missing" in network)) network.close();
});

/** The three hosts; without them the test is skipped. */
function hostsOf(context: TestContext): TestHosts {
  return "missing" in network ? context.skip(network.missing) : network;
}

interface Master {
  readonly run: JobRun;
  readonly port: number;
}

/** A job whose master is on this host; where its ranks join is in a file of the run. The same again goes on with the run. */
async function masterOn({ gateway }: TestHosts, job: string, joinPort = 0): Promise<Master> {
  const settings = ["init_replicas.rollout=4"].flatMap((one) => ["--set", one]);
  const where = ["--master", "--master-addr", gateway, "--master-port", `${joinPort}`, "--eval-interval", "6"];
  const run = await runs.start(job, ...nodes, ...where, "--steps", `${steps}`, ...settings);
  const port = await waitFor(() => portIn(run), {
    what: "the port of the master",
    timeoutMs: 60_000,
    detail: () => run.process.lines,
  });
  return { run, port };
}

function portIn({ directory }: JobRun): number | null {
  try {
    return JSON.parse(readFileSync(join(directory, "ranks.json"), "utf8")).port;
  } catch {
    return null;
  }
}

/** The command of a rank, on a host of its own: its name, and its folder of sockets. */
async function rankOn(hosts: TestHosts, { run, port }: Master, rank: number): Promise<ActorProcess> {
  const host = hosts.hosts[rank - 1];
  const { socketDirectory } = JSON.parse(readFileSync(join(run.directory, "job.json"), "utf8")).data;
  const own = join(runs.path, `sockets-${run.job}-${rank}`);
  mkdirSync(own, { recursive: true, mode: 0o700 });
  const setup = `hostname host-${rank} && mkdir -p "$0" && mount --bind "$1" "$0" && shift && exec "$@"`;
  const command = [process.execPath, muster, "run", ...nodes, "--runs", join(runs.path, `host-${rank}`)];
  const args = [
    ...(host?.wrapper.slice(1) ?? []),
    "unshare",
    "--uts",
    "--mount",
    "sh",
    "-c",
    setup,
    socketDirectory,
    own,
  ];
  const env = { MASTER_ADDR: hosts.gateway, MASTER_PORT: `${port}`, RANK: `${rank}`, MUSTER_JOIN_TOKEN: token };
  return await spawnActor({ command: host?.wrapper[0] ?? "ip", args: [...args, ...command], env });
}

/** Kills what runs on the host of the master, all at once. */
function killMaster(): void {
  const hostOf = (pid: number | "self"): string => readlinkSync(`/proc/${pid}/ns/net`);
  for (const { pid } of processesNaming(runs.path)) if (hostOf(pid) === hostOf("self")) process.kill(pid, "SIGKILL");
}

/** Ranks that are not there, as the run says. */
function missingIn({ directory }: JobRun): readonly number[] {
  const { ranks } = JSON.parse(readFileSync(join(directory, "ranks.json"), "utf8")) as {
    ranks: { rank: number; host: string | null }[];
  };
  return ranks.filter(({ host }) => host === null).map(({ rank }) => rank);
}

/** Moments that can be seen from outside, by the phases of a script in which the job is then. */
const moments: Readonly<Record<string, (run: JobRun) => Promise<unknown>>> = {
  "0, before the first weights": async () => {},
  "1 to 4, while it samples": (run) => run.waitForEvent("step.committed", ({ step }) => step >= 2, 60_000),
  "5 and 6, at an evaluation": (run) => run.waitForEvent("step.committed", ({ step }) => step === 6, 60_000),
  "7 to 9, before the first training": (run) => run.waitForEvent("eval.finished", undefined, 60_000),
  "10, once it trains": (run) => run.waitForEvent("mesh.changed", undefined, 60_000),
  "11 to 13, near the end": (run) => run.waitForEvent("step.committed", ({ step }) => step === steps - 3, 60_000),
};
const all = Object.keys(moments);

/** The phases in which somebody is killed, by hand `moment`. */
function phasesOf(test: 0 | 1, moment: string): readonly string[] {
  if (process.env.MUSTER_TEST_PHASES === "all") return all;
  if (turn === null) return [moment];
  return turn % 2 === test ? [all[Math.floor(turn / 2) % all.length] ?? moment] : [];
}

/** What every such job comes to: each step once, and the weights of one process. */
async function expectWhole(run: JobRun): Promise<void> {
  const summary = await run.ended();
  expect(run.events("step.committed").map(({ step }) => step)).toEqual(Array.from({ length: steps }, (_, i) => i + 1));
  expect(summary.weights_hash).toBe(await digestOfLocalTraining(run));
  expect(run.events("alarm.raised").filter(({ alarm }) => alarm === "checkpoint" || alarm === "capacity")).toEqual([]);
  expectBalanced(summary);
}

async function expectGoodEnds(ranks: readonly ActorProcess[]): Promise<void> {
  const exits = await Promise.all(ranks.map(({ exited }) => exited));
  expect(exits.map(({ code }) => code)).toEqual(exits.map(() => 0));
}

describe("three hosts, one command each:", () => {
  test.for(phasesOf(0, "1 to 4, while it samples"))(
    "rank 1 is killed in the phases %s, and the same command brings it back; the weights are those of one process",
    async (moment, context) => {
      const hosts = hostsOf(context);
      const master = await masterOn(hosts, `killed-${all.indexOf(moment)}`);
      const { run } = master;
      const ranks = await Promise.all([1, 2].map((rank) => rankOn(hosts, master, rank)));
      await waitFor(() => missingIn(run).length === 0, { what: "all ranks", timeoutMs: 60_000 });
      await moments[moment]?.(run);
      ranks[0]?.signal("SIGKILL");
      await waitFor(() => missingIn(run).join() === "1", { what: "the master to miss rank 1", timeoutMs: 20_000 });
      // Near the end the job may be over before it could join.
      const again = moment.startsWith("11") ? [] : [await rankOn(hosts, master, 1)];
      await expectWhole(run);
      await expectGoodEnds([...ranks.slice(1), ...again]);
    },
  );

  test.for(phasesOf(1, "7 to 9, before the first training"))(
    "the master is killed in the phases %s with all that runs beside it, and the same command goes on from there with the ranks that waited",
    async (moment, context) => {
      const hosts = hostsOf(context);
      const job = `left-${all.indexOf(moment)}`;
      const master = await masterOn(hosts, job);
      const ranks = await Promise.all([1, 2].map((rank) => rankOn(hosts, master, rank)));
      await waitFor(() => missingIn(master.run).length === 0, { what: "all ranks", timeoutMs: 60_000 });
      await moments[moment]?.(master.run);
      killMaster();
      expect((await master.run.process.exited).signal).toBe("SIGKILL");
      const { run } = await masterOn(hosts, job, master.port);
      await expectWhole(run);
      await expectGoodEnds(ranks);
    },
  );
});
