/** Whatever a command waits for, SIGTERM ends it within five seconds. The file takes longer than others, because most of it is waiting. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { constants, existsSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { embeddedEngines as engines } from "@muster/engine/embedded";
import { loadJob } from "@muster/runtime/config";
import { makeTempDirectory, type TempDirectory, waitFor } from "@muster/testkit";
import { generateKeys } from "@muster/transport/internal";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createProgram } from "../src/program.ts";
import { buildOnce, root } from "./support/muster.ts";

const program = await createProgram();

const { config } = loadJob({
  env: {},
  folder: "/",
  set: ["job.name=small", "task.name=dates"],
  describeTask: () => ({ vocab: 13, maxContext: 128 }),
  engines,
});

const timeout = 60_000;
const endMs = 5_000;

let folder: TempDirectory;
const path = (...names: string[]) => join(folder.path, ...names);
const fifo = (...names: string[]): string => {
  mkdirSync(dirname(path(...names)), { recursive: true });
  execFileSync("mkfifo", [path(...names)]);
  return path(...names);
};

beforeAll(async () => {
  buildOnce();
  folder = await makeTempDirectory();
}, 120_000);
afterAll(() => folder.remove());

/** Starts a command; `stderr` is a descriptor where it is not to be read. */
function start(args: readonly string[], env: NodeJS.ProcessEnv = {}, stderr: number | "pipe" = "pipe") {
  const child = spawn(process.execPath, [join(root, "packages/cli/bin/muster.mjs"), ...args], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", stderr],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (chunk: Buffer) => {
      said += chunk.toString();
    });
  return { child, said: () => said };
}

/** Ends it, and fails when it takes too long. */
async function terminate(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  const fromMs = performance.now();
  child.kill("SIGTERM");
  const kill = setTimeout(() => child.kill("SIGKILL"), 2 * endMs);
  await ended;
  clearTimeout(kill);
  expect(performance.now() - fromMs).toBeLessThan(endMs);
}

/** Commands with a silent broker, their arguments behind them. */
const atBroker: readonly (readonly [string, ...string[]])[] = [
  ["policy"],
  ["rollout"],
  ["checkpoint"],
  ["node"],
  ["controller"],
  ["status", "--watch"],
  ["watch"],
  ["stop"],
  ["drain", "rollout-0"],
  ["scale", "rollout=1"],
  ["replace", "rollout-0"],
  ["cordon", "node-0"],
  ["uncordon", "node-0"],
  ["kill", "rollout-0"],
  ["cancel", "c-1"],
  ["send", "fleet.scale", "--json", "{}"],
  ["change", "optimizer.lr=0.001"],
  ["barrier", "0", "--iteration", "0", "--ranks", "2", "--rank", "0"],
  ["trajectories", "import", "/tmp"],
  ["dashboard", "--listen", "127.0.0.1:0"],
  ["run"],
  ["doctor"],
];

/** Commands with a file that nobody writes to: its place, and their arguments with it. */
const atFile: readonly (readonly [string, readonly string[], (file: string) => readonly string[]])[] = [
  ["run", ["job.toml"], (file) => ["run", file]],
  ["certify", ["proof.toml"], (file) => ["certify", file]],
  ["config", ["checked.toml"], (file) => ["config", "check", file]],
  ["status", ["status.json"], (file) => ["status", "--watch", "--connection", file, "--job", "fifo"]],
  ["credentials", ["keys.json"], (file) => ["credentials", "rollout", "--connection", file, "--job", "fifo"]],
  ["rollout", ["rollout.json"], (file) => ["rollout", "--connection", file, "--job", "fifo"]],
  ["sim", ["scenario.json"], (file) => ["sim", "--replay", file]],
  ["gateway", ["tokens"], (file) => ["gateway", "--port", "0", "--tokens", file]],
  [
    "router",
    ["router-tokens"],
    (file) => ["router", "--port", "0", "--worker", "http://127.0.0.1:9", "--token-file", file],
  ],
  ["check", ["checked", "events.jsonl"], (file) => ["check", dirname(file), "--no-journal"]],
];

/** Commands that serve until they are told to end. */
const servers: readonly (readonly [string, (own: string) => readonly string[]])[] = [
  ["broker", (own) => ["--job", "one", "--directory", own, "--json"]],
  ["gateway", (own) => ["--port", "0", "--state", own, "--json"]],
  ["router", () => ["--port", "0", "--worker", "http://127.0.0.1:9", "--json"]],
];

/** Commands that read files and end; those of a checkpoint are opened without waiting, and one that is no plain file is refused. */
const quick = ["completion", "export", "help", "jobs", "report", "types"];
/** Those of `terminate-long`, and of the last tests here. */
const elsewhere = ["bench", "chaos", "samples", "worker"];

test("every command of muster is among those that are ended here", () => {
  const all = program.commands.map((command) => command.name());
  const tried = [...atBroker, ...atFile, ...servers].map(([command]) => command);
  expect([...new Set([...tried, ...quick, ...elsewhere])].sort()).toEqual([...new Set([...all, "help"])].sort());
});

describe("a broker that takes connections and never answers", () => {
  /** A job whose broker is silent, and how often somebody has come to it. */
  async function silentJob(job: string) {
    let calls = 0;
    const server: Server = createServer(() => {
      calls += 1;
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const url = `nats://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
    const { credentials } = generateKeys();
    mkdirSync(path(job, "logs"), { recursive: true });
    if (["silent-controller", "silent-trajectories"].includes(job))
      writeFileSync(path(job, "job.json"), JSON.stringify(config));
    writeFileSync(path(job, "connection.json"), JSON.stringify({ job, url, credentials }), { mode: 0o600 });
    writeFileSync(path(job, "credentials.json"), JSON.stringify(credentials), { mode: 0o600 });
    const env = { MUSTER_NATS_URL: url, MUSTER_NATS_CREDENTIALS: path(job, "credentials.json") };
    return { where: ["--runs", folder.path, "--job", job], env, calls: () => calls, server };
  }

  test.concurrent.each(atBroker)("does not keep muster %s", { timeout }, async (command, ...rest) => {
    const { where, env, calls, server } = await silentJob(`silent-${command}`);
    const own = command === "run" ? ["jobs/dates.toml", "--runs", path("runs"), "--job", "silent"] : where;
    const { child, said } = start(
      [command, ...rest, ...(command === "doctor" ? [] : own)],
      command === "run" || command === "doctor" ? env : {},
    );
    await waitFor(() => calls() > 0, { what: "a call at the broker", timeoutMs: 30_000, detail: said });
    await terminate(child);
    server.close();
  });
});

describe("a file that nobody writes to", () => {
  test.concurrent.each(atFile)("does not keep muster %s", { timeout }, async (command, names, argsFor) => {
    const file = fifo("fifos", ...names);
    writeFileSync(join(dirname(file), "job.json"), JSON.stringify(config));
    const hasRuns = ["run", "certify"].includes(command);
    const { child, said } = start([...argsFor(file), ...(hasRuns ? ["--runs", path("fifos")] : [])]);
    // It can be opened for writing as soon as the command has opened it; nothing is written.
    const opened = () => {
      try {
        return openSync(file, constants.O_WRONLY | constants.O_NONBLOCK);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENXIO") throw error;
        return null;
      }
    };
    await waitFor(() => opened() !== null, { what: "the command at the file", timeoutMs: 30_000, detail: said });
    await terminate(child);
  });
});

describe("nobody who comes", () => {
  test.concurrent.each(servers)("does not keep muster %s", { timeout }, async (command, argsFor) => {
    const { child, said } = start([command, ...argsFor(path(`serving-${command}`))]);
    await waitFor(() => said().includes("127.0.0.1:"), { what: "its address", timeoutMs: 30_000, detail: said });
    await terminate(child);
  });
});

test("a main loop that never turns again does not keep a command that handles the signal", { timeout }, async () => {
  const spin = `import { writeSync } from "node:fs"; const { write } = process.stdout; process.stdout.write = function (...said) {
    setTimeout(() => { writeSync(2, "stuck\\n"); for (;;); }, 50); return write.apply(this, said); };`;
  const stuck = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(spin)}` };
  const { child, said } = start(["gateway", "--port", "0", "--state", path("stuck"), "--json"], stuck);
  const isStuck = () => said().includes("127.0.0.1:") && said().includes("stuck\n");
  await waitFor(isStuck, { what: "its address and that it is stuck", timeoutMs: 30_000, detail: said });
  const ended = once(child, "exit");
  const fromMs = performance.now();
  child.kill("SIGTERM");
  expect(await ended).toEqual([null, "SIGTERM"]);
  expect(performance.now() - fromMs).toBeLessThan(endMs + 1_000);
  expect(said()).toContain("the main loop did not answer");
});

test("a program that never says hello does not keep muster worker", { timeout }, async () => {
  const { child } = start(["worker", "check", "--", "sh", "-c", `echo > ${path("begun")}; exec sleep 100`]);
  await waitFor(() => existsSync(path("begun")), { what: "the program", timeoutMs: 30_000 });
  await terminate(child);
});

test("samples that are followed do not keep a command when none come any more", { timeout }, async () => {
  mkdirSync(path("runs", "followed"), { recursive: true });
  writeFileSync(path("runs", "followed", "job.json"), JSON.stringify(config));
  const figures = { step: 1, lineage: 0, sample: 0, version: 0, tokens: 1, reward: 1 };
  const texts = {
    group: "1.0",
    replica: "r",
    prompt: "p",
    answer: null,
    completion: "c",
    status: "completed",
    error: null,
  };
  writeFileSync(path("runs", "followed", "samples.jsonl"), `${JSON.stringify({ ...figures, ...texts })}\n`);
  // Whose supervisor is there is running.
  writeFileSync(path("runs", "followed", "run.pid"), `${process.pid}`);
  const { child, said } = start(["samples", "--runs", path("runs"), "--job", "followed", "--follow"]);
  await waitFor(() => said() !== "", { what: "the sample that is there", timeoutMs: 30_000 });
  await terminate(child);
});

test("output that nobody takes does not keep a command", { timeout }, async () => {
  const full = openSync(fifo("full"), constants.O_RDWR | constants.O_NONBLOCK);
  expect(() => {
    for (;;) writeSync(full, "x".repeat(4_096));
  }).toThrow("EAGAIN");
  const { child } = start(["run", "--runs", path("runs"), "--job", "full"], {}, full);
  const isThere = () => {
    try {
      return openSync(path("runs", "full", "events.jsonl"), "r") > 0;
    } catch {
      return false;
    }
  };
  await waitFor(isThere, { what: "the first event of the run", timeoutMs: 40_000 });
  await terminate(child);
});

test.each([
  ["--runs", ["--runs", "/proc/nope"], "run directory /proc/nope/unusable"],
  ["checkpoint.directory", ["--set", "checkpoint.directory=/proc/nope"], "checkpoint.directory: no folder"],
  ["data.socket_directory", ["--set", "data.socket_directory=/proc/nope"], "data.socket_directory: no folder"],
])("a folder that can not be made is named: %s", { timeout }, async (_, args, says) => {
  const runs = args.includes("--runs") ? [] : ["--runs", path("unusable")];
  const { child, said } = start(["run", "--job", "unusable", ...runs, ...args]);
  const [code] = await once(child, "exit");
  expect(code, said()).toBe(2);
  expect(said()).toContain(says);
});
