/** `muster report`: the report of a run, made anew from what its folder has. */
import { renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { messageOf } from "@muster/base";
import type { Command } from "commander";
import { runsDefault } from "../composition/runs.ts";
import { errors } from "../errors.ts";
import { findRun } from "../job/find-run.ts";
import { htmlReport } from "../report/index.ts";
import { readRecord } from "../run/read-record.ts";
import { listed } from "./list.ts";

interface Options {
  readonly runs: string;
  readonly out?: string;
  readonly json?: boolean;
}

/** Adds the command. */
export function addReportCommand(program: Command): void {
  listed(program, "report")
    .argument("[job]", "name of the job (default: the newest one)")
    .option("--runs <folder>", "folder of the runs", runsDefault)
    .option("--out <file>", "where to write it (default: report.html in the folder of the run)")
    .option("--json", "write the record that the report is made of as one line of JSON, and no file")
    .action((job: string | undefined, { runs, out, json }: Options) => {
      const run = findRun({ runs, ...(job === undefined ? {} : { job }) });
      const record = readRecord(run.directory, run.job);
      if (json) process.stdout.write(`${JSON.stringify(record)}\n`);
      else {
        const path = out === undefined ? join(run.directory, "report.html") : resolve(out);
        write(path, htmlReport(record));
        process.stdout.write(`${path}\n`);
      }
    });
}

/** Whole or not at all: a run that goes on writes the same file. */
function write(path: string, text: string): void {
  const unfinished = `${path}.${process.pid}.new`;
  try {
    writeFileSync(unfinished, text, { mode: 0o600 });
    renameSync(unfinished, path);
  } catch (error) {
    throw errors.OptionInvalid(
      { option: "out", value: path, reason: `can not be written: ${messageOf(error)}` },
      error,
    );
  }
}
