/** `muster check`: audits a run by the files that it left. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { checkRun } from "@muster/check";
import { openRunFolder, type RunFolder } from "@muster/check/files";
import { type ExitCode, exitCodes } from "@muster/runtime";
import type { Command } from "commander";
import { jobsIn } from "../composition/connection.ts";
import { pasted } from "../composition/pasted.ts";
import { newestName, runsDefault } from "../composition/runs.ts";
import { errors } from "../errors.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { findJournal, readJournalCopy } from "../run/journal-copy.ts";
import { auditText } from "../view/audit-text.ts";
import { listed } from "./list.ts";

interface Options {
  readonly runs: string;
  readonly journal: boolean;
  readonly json?: boolean;
}

/** A look at the clock costs little beside a piece of a file. */
const sayEveryMs = 5_000;

/** Adds the command. */
export function addCheckCommand(program: Command): void {
  listed(program, "check")
    .argument("[run]", "name of the run, or its folder", newestName)
    .option("--runs <folder>", "folder of the runs", runsDefault)
    .option("--no-journal", "leave the journal out; without it no nats-server is needed")
    .option("--json", "write one line of JSON: what was checked, what was found")
    .action(async (run: string, options: Options) => {
      process.exitCode = await untilInterrupted((signal) => check(run, options, signal));
    });
}

async function check(run: string, options: Options, signal: AbortSignal): Promise<ExitCode> {
  const folder = openRunFolder(folderOf(run, options));
  const audit = await checkRun(folder, { journal: journalOf(folder, options), signal, onProgress: progressLine() });
  process.stdout.write(`${options.json ? JSON.stringify(audit) : auditText(audit)}\n`);
  return audit.ok ? exitCodes.ok : exitCodes.failed;
}

/** A folder of that name, or a run of that name. */
function folderOf(run: string, { runs }: Options): string {
  if (run !== newestName && existsSync(join(run, "job.json"))) return resolve(run);
  const folder = resolve(runs);
  const name = run === newestName ? jobsIn(folder)[0] : run;
  if (name === undefined) throw errors.JobNone({ directory: folder, start: pasted("run") });
  const path = join(folder, name);
  if (!existsSync(path)) throw errors.JobUnknown({ job: name, directory: folder, start: pasted("run") });
  return path;
}

function journalOf(folder: RunFolder, { journal }: Options): Parameters<typeof checkRun>[1]["journal"] {
  if (!journal) return { missing: "left out by --no-journal" };
  const place = findJournal(folder);
  return "missing" in place ? place : readJournalCopy(folder, place.stream, process.env);
}

/** Says on standard error how far a long audit is. */
function progressLine(): (done: number, total: number) => void {
  let saidMs = performance.now();
  return (done, total) => {
    if (performance.now() - saidMs < sayEveryMs) return;
    saidMs = performance.now();
    process.stderr.write(`read ${Math.floor((100 * done) / Math.max(1, total))} % of ${megabytes(total)} MB\n`);
  };
}

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(0);
