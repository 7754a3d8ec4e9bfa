/** `muster broker`: one nats-server on loopback for several jobs, each with users of its own. */
import { rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { silentLogger } from "@muster/base";
import { checkId } from "@muster/protocol";
import { type ExitCode, exitCodes, makeOwnFolderSync, systemClock } from "@muster/runtime";
import { type ServerCredentials, startLocalServer } from "@muster/transport";
import type { Command } from "commander";
import { errors } from "../errors.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { findNatsServer } from "../run/broker.ts";
import { ServerKeeper } from "../run/server-keeper.ts";
import { collect, portOf } from "./common.ts";
import { listed } from "./list.ts";

interface Options {
  readonly job: readonly string[];
  readonly directory: string;
  readonly port?: string;
  readonly json?: boolean;
}

const directoryDefault = "broker";

/** Adds the command. */
export function addBrokerCommand(program: Command): void {
  listed(program, "broker")
    .option("--job <name>", "name of a job that may use it; give it for each", collect, [])
    .option("--directory <folder>", "folder of its store, its keys and the users of each job", directoryDefault)
    .option("--port <port>", "port on loopback (default: the one of before, or any free one)")
    .option("--json", "write one line of JSON once it listens: its address, and the file of users of each job")
    .action(async (options: Options) => {
      process.exitCode = await untilInterrupted((signal) => serve(options, signal));
    });
}

/** The server itself belongs to no job, so that the order in which jobs are named says nothing. */
const ownJob = "broker";

async function serve(options: Options, signal: AbortSignal): Promise<ExitCode> {
  const otherJobs = [...new Set(options.job.map((name) => checkId("job", name)))];
  const reason =
    otherJobs.length === 0 ? "is missing: name each job that may use the broker" : "is the broker's own name";
  if (otherJobs.length === 0 || otherJobs.includes(ownJob))
    throw errors.OptionInvalid({ option: "job", value: otherJobs.length === 0 ? '""' : ownJob, reason });
  const directory = resolve(options.directory);
  makeOwnFolderSync(directory);
  let end: (how: string) => void = () => {};
  const ended = new Promise<string>((done) => {
    end = done;
  });
  const home = join(directory, "nats");
  const keeper = new ServerKeeper({
    ...{ directory: home, clock: systemClock(), logger: silentLogger },
    onRestart: (detail) => process.stderr.write(`muster: ${detail}; it is started again\n`),
    onGivenUp: end,
  });
  const server = await startLocalServer({
    binary: findNatsServer(process.env),
    directory: home,
    job: ownJob,
    otherJobs,
    ...(options.port === undefined ? {} : { port: portOf("port", options.port) }),
    onExit: ({ code, signal: by }) => keeper.ended(`nats-server ended with ${by ?? `code ${code}`}`),
  });
  keeper.keep(server);
  try {
    const files = Object.entries(server.others).map(
      ([job, users]) => [job, writeUsers(directory, job, users)] as const,
    );
    const text = options.json
      ? JSON.stringify({ url: server.url, users: Object.fromEntries(files) })
      : textOf(server.url, files);
    process.stdout.write(`${text}\n`);
    const how = await Promise.race([ended, whenAborted(signal)]);
    if (how === null) return exitCodes.ok;
    process.stderr.write(`muster: ${how}\n`);
    return exitCodes.failed;
  } finally {
    await keeper.stop();
    await server.stop();
  }
}

/** Writes the users of a job, for its eyes alone. */
function writeUsers(directory: string, job: string, users: ServerCredentials): string {
  const path = join(directory, `${job}.json`);
  rmSync(path, { force: true });
  writeFileSync(path, `${JSON.stringify(users, null, 2)}\n`, { mode: 0o600, flag: "wx" });
  return path;
}

function textOf(url: string, files: readonly (readonly [job: string, file: string])[]): string {
  const lines = files.map(
    ([job, file]) => `  MUSTER_NATS_URL=${url} MUSTER_NATS_CREDENTIALS=${file} muster run --job ${job}`,
  );
  return [`the broker listens on ${url}, until Ctrl-C; its jobs are run with:`, ...lines].join("\n");
}

function whenAborted(signal: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(null);
    signal.addEventListener("abort", () => resolve(null), { once: true });
  });
}
