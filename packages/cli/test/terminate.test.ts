/** Whatever a command waits for, SIGTERM ends it within five seconds. The file takes longer than others, because most of it is waiting. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { constants, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { makeTempDirectory, type TempDirectory, waitFor } from "@muster/testkit";
import { generateKeys } from "@muster/transport/internal";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildOnce, root } from "./support/muster.ts";

const timeout = 60_000;
const endMs = 5_000;

let folder: TempDirectory;
const path = (...names: string[]) => join(folder.path, ...names);
const fifo = (name: string): string => {
  execFileSync("mkfifo", [path(name)]);
  return path(name);
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
    stdio: ["ignore", "ignore", stderr],
  });
  let said = "";
  child.stderr?.on("data", (chunk: Buffer) => {
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
    writeFileSync(path(job, "connection.json"), JSON.stringify({ job, url, credentials }), { mode: 0o600 });
    writeFileSync(path(job, "credentials.json"), JSON.stringify(credentials), { mode: 0o600 });
    const env = { MUSTER_NATS_URL: url, MUSTER_NATS_CREDENTIALS: path(job, "credentials.json") };
    return { where: ["--runs", folder.path, "--job", job], env, calls: () => calls, server };
  }

  test.concurrent.each([
    ["policy"],
    ["rollout"],
    ["checkpoint"],
    ["node"],
    ["status", "--watch"],
    ["watch"],
    ["stop"],
    ["drain", "rollout-0"],
    ["scale", "rollout=1"],
    ["send", "fleet.scale", "--json", "{}"],
    ["change", "optimizer.lr=0.001"],
    ["barrier", "0", "--iteration", "0", "--ranks", "2", "--rank", "0"],
    ["dashboard", "--listen", "127.0.0.1:0"],
    ["run"],
    ["doctor"],
  ])("does not keep muster %s", { timeout }, async (command, ...rest) => {
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
  test.concurrent.each([
    ["run as job file", (file: string) => ["run", file]],
    ["config check", (file: string) => ["config", "check", file]],
    ["status as connection", (file: string) => ["status", "--watch", "--connection", file, "--job", "fifo"]],
    ["rollout as connection", (file: string) => ["rollout", "--connection", file, "--job", "fifo"]],
    ["sim as scenario", (file: string) => ["sim", "--replay", file]],
  ])("does not keep muster %s", { timeout }, async (name, args) => {
    const file = fifo(name.replaceAll(" ", "-"));
    const { child, said } = start([...args(file), ...(name.startsWith("run") ? ["--runs", path("runs")] : [])]);
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
