/** `muster trajectories`: finished groups of a run as files, and files into a job. */
import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { exportTrajectories, importerId } from "@muster/actors/trajectories";
import { openRunFolder } from "@muster/check/files";
import { connectJob } from "@muster/client";
import { type ExitCode, exitCodes } from "@muster/runtime";
import { connectNats } from "@muster/transport";
import type { Command } from "commander";
import { credentialsOf, findConnection } from "../composition/connection.ts";
import { runsDefault } from "../composition/runs.ts";
import { errors } from "../errors.ts";
import { findRun } from "../job/find-run.ts";
import { cleanLine } from "../report/text.ts";
import { exportedText, trajectoriesIn } from "../run/phase-keeper.ts";
import { Importer } from "../trajectories/importer.ts";
import { openRunStore } from "../trajectories/run-store.ts";
import { listed } from "./list.ts";

interface Options {
  readonly job?: string;
  readonly runs: string;
  readonly out?: string;
  readonly json?: boolean;
}

const connectTimeoutMs = 10_000;

/** Adds the commands. */
export function addTrajectoriesCommands(program: Command): void {
  const trajectories = listed(program, "trajectories");
  withRun(trajectories.command("export").description("write what a run has sampled and its broker still has"))
    .option("--out <folder>", "where to; what is there already stays (default: trajectories in the folder of the run)")
    .action(async (options: Options) => {
      process.exitCode = await exportRun(options);
    });
  withRun(
    trajectories
      .command("import")
      .description("bring groups out of files into a job that runs; each is trained once, whoever samples it too"),
  )
    .argument("<folder>", "folder of the files")
    .action(async (folder: string, options: Options) => {
      process.exitCode = await importInto(resolve(folder), options);
    });
}

function withRun(command: Command): Command {
  return command
    .option("--job <name>", "name of the job (default: the newest one)")
    .option("--runs <folder>", "folder of the runs", runsDefault)
    .option("--json", "write one line of JSON: what was done, what was refused");
}

async function exportRun(options: Options): Promise<ExitCode> {
  if (options.out !== undefined && existsSync(options.out)) requireFolder("--out", options.out);
  const run = findRun(options);
  const out = resolve(options.out ?? trajectoriesIn(run.directory));
  const { folder, transport, close } = await openRunStore(run, process.env);
  try {
    const done = await exportTrajectories(transport, folder.config, out).catch((error: unknown) => {
      throw namedFault(error, "--out", out);
    });
    process.stdout.write(
      `${options.json ? JSON.stringify({ job: run.job, out, ...done }) : exportedText(done, out)}\n`,
    );
    return done.refused.length > 0 ? exitCodes.failed : exitCodes.ok;
  } finally {
    await close();
  }
}

async function importInto(folder: string, options: Options): Promise<ExitCode> {
  requireFolder("folder", folder);
  const { job, directory } = findRun(options);
  const { config } = openRunFolder(directory);
  const connection = findConnection({ runs: resolve(options.runs), job }, ["operator", "rollout"]);
  const { url } = connection;
  const name = `rollout.${importerId}.${process.pid}`;
  const client = await connectJob({ url, job, credentials: credentialsOf(connection, "operator"), connectTimeoutMs });
  const credentials = credentialsOf(connection, "rollout");
  const transport = await connectNats({ url, job, credentials, name, connectTimeoutMs }).catch(async (error) => {
    await client.close();
    throw error;
  });
  const refused: { readonly path: string; readonly reason: string }[] = [];
  try {
    const status = await client.status();
    if (!status || status.version === null)
      throw errors.ArgumentInvalid({
        argument: "folder",
        value: folder,
        reason: `job ${job} has no weights yet; import when its status names a version`,
      });
    const importer = new Importer({ folder, config, client, transport, onRefused: (file) => refused.push(file) });
    const done = await importer.bring({ step: status.step + 1, version: status.version, changes: status.changes });
    const lines = [
      ...done.details,
      ...(done.later > 0
        ? [`${done.later} files are of later steps or versions; import again when the job is there`]
        : []),
      ...(done.files + done.later === 0 ? [`no files of this job in ${folder}`] : []),
      ...refused.map(({ path, reason }) => `not ${cleanLine(path)}: ${cleanLine(reason)}`),
    ];
    process.stdout.write(options.json ? `${JSON.stringify({ job, ...done, refused })}\n` : `${lines.join("\n")}\n`);
    return refused.length > 0 ? exitCodes.failed : exitCodes.ok;
  } finally {
    await transport.close();
    await client.close();
  }
}

function requireFolder(argument: string, value: string): void {
  if (statSync(value, { throwIfNoEntry: false })?.isDirectory()) return;
  throw errors.ArgumentInvalid({ argument, value, reason: "it is no folder" });
}

/** What the file system says names no file when a disk is full. */
function namedFault(error: unknown, argument: string, value: string): unknown {
  if (!(error instanceof Error && "syscall" in error)) return error;
  return errors.ArgumentInvalid({ argument, value, reason: error.message });
}
