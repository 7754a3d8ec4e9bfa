/** `muster jobs`: the runs of a folder, newest first. */

import { join, resolve } from "node:path";
import type { Command } from "commander";
import { jobsIn } from "../composition/connection.ts";
import { pasted } from "../composition/pasted.ts";
import { runsDefault } from "../composition/runs.ts";
import { describeRun, type RunState } from "../job/run-state.ts";
import { duration, figure, percent } from "../report/text.ts";
import { type Column, table } from "../view/table.ts";
import { listed } from "./list.ts";

const columns: readonly Column[] = [
  { title: "JOB" },
  { title: "STATE" },
  { title: "STEP", right: true },
  { title: "REWARD", right: true },
  { title: "HELD-OUT", right: true },
  { title: "TIME", right: true },
  { title: "STARTED" },
];

/** Adds the command. */
export function addJobsCommand(program: Command): void {
  listed(program, "jobs")
    .option("--runs <folder>", "folder of the runs", runsDefault)
    .option("--json", "write one line of JSON: a list of runs")
    .action(({ runs, json }: { readonly runs: string; readonly json?: boolean }) => {
      const folder = resolve(runs);
      const states = jobsIn(folder).map((job) => describeRun(join(folder, job), job));
      process.stdout.write(`${json ? JSON.stringify(states) : textOf(states, folder)}\n`);
    });
}

function textOf(states: readonly RunState[], folder: string): string {
  if (states.length === 0) return `no runs in ${folder}; start one with: ${pasted("run")}`;
  return table(columns, states.map(cellsOf)).join("\n");
}

function cellsOf(run: RunState): readonly string[] {
  return [
    run.job,
    run.state,
    figure(run.step),
    figure(run.reward_last, 3),
    percent(run.eval_last),
    run.wall_s === null ? "–" : duration(run.wall_s * 1000),
    run.started_at?.slice(0, 19).replace("T", " ") ?? "–",
  ];
}
