/** `muster status`: what the controller says of its job at this moment. */
import { setTimeout as pause } from "node:timers/promises";
import { hasCode, MusterError } from "@muster/base";
import type { SeenStatus } from "@muster/client";
import { type ExitCode, exitCodes } from "@muster/runtime";
import type { Command } from "commander";
import { untilInterrupted } from "../job/interrupt.ts";
import { type Operator, withJob } from "../job/open-job.ts";
import { describeRun, type RunState, sayRun } from "../job/run-state.ts";
import { readRanks } from "../multinode/ranks-file.ts";
import { duration } from "../report/text.ts";
import { Screen } from "../terminal/screen.ts";
import { terminalOf } from "../terminal/terminal.ts";
import { statusText } from "../view/status-text.ts";
import { type LocationOptions, withLocation } from "./common.ts";
import { listed } from "./list.ts";

interface Options extends LocationOptions {
  readonly json?: boolean;
  readonly watch?: boolean;
}

/** The controller writes it as often. */
const redrawMs = 1_000;
/** A broker that is away for so long while nothing says that the job is over does not come back by itself. */
const awayMs = 60_000;
const endMs = 5_000;
const stepMs = 100;

const overStates: ReadonlySet<RunState["state"]> = new Set(["done", "stopped", "failed", "interrupted"]);

/** Adds the command. */
export function addStatusCommand(program: Command): void {
  withLocation(listed(program, "status"))
    .option("--watch", "show it again every second until the job ends")
    .option("--json", "write one line of JSON, each time")
    .action(async (options: Options) => {
      process.exitCode = await untilInterrupted((signal) =>
        withJob(options, (operator) =>
          options.watch ? watch(operator, options, signal) : showOnce(operator, options),
        ),
      );
    });
}

async function showOnce(operator: Operator, options: Options): Promise<ExitCode> {
  process.stdout.write(`${textOf(operator, await operator.client.status(), options)}\n`);
  return exitCodes.ok;
}

/** Shows the status until the job is over, and says how it ended: also when the broker ends with it. */
async function watch(operator: Operator, options: Options, signal: AbortSignal): Promise<ExitCode> {
  const terminal = terminalOf(process.stdout, process.env);
  const screen = terminal.isLive && !options.json ? new Screen(terminal) : null;
  const show = (text: (columns: number) => string): void => {
    if (screen) screen.show(text);
    else process.stdout.write(`${text(Number.POSITIVE_INFINITY)}\n${options.json ? "" : "\n"}`);
  };
  let last: SeenStatus | null = null;
  let silentMs = 0;
  try {
    for (;;) {
      const startedMs = performance.now();
      const seen = await statusOrFault(operator);
      if ("fault" in seen) {
        silentMs += performance.now() - startedMs + redrawMs;
        const run = describeRun(operator.directory, operator.job);
        if (overStates.has(run.state)) return sayEnd(run, options);
        if (silentMs > awayMs) throw seen.fault;
        if (!options.json) show(() => awayText(operator.job, last, silentMs));
      } else {
        silentMs = 0;
        last = seen.status;
        show((columns) => textOf(operator, seen.status, options, columns));
        if (seen.status?.phase === "stopped") return sayEnd(await ended(operator, signal), options);
      }
      await pause(redrawMs, null, { signal });
    }
  } finally {
    screen?.close();
  }
}

/** The job is over; its folder says how within a moment. */
async function ended({ directory, job }: Operator, signal: AbortSignal): Promise<RunState> {
  for (let waitedMs = 0; waitedMs < endMs; waitedMs += stepMs) {
    const run = describeRun(directory, job);
    if (overStates.has(run.state)) return run;
    await pause(stepMs, null, { signal });
  }
  return describeRun(directory, job);
}

function sayEnd(run: RunState, { json }: Options): ExitCode {
  if (json) return exitCodes.ok;
  process.stdout.write(`${overStates.has(run.state) ? sayRun(run) : `job ${run.job} is over`}\n`);
  return exitCodes.ok;
}

async function statusOrFault({ client }: Operator): Promise<{ status: SeenStatus | null } | { fault: MusterError }> {
  try {
    return { status: await client.status() };
  } catch (fault) {
    if (fault instanceof MusterError && !hasCode(fault, "MUSTER_ERR_STATUS_UNREADABLE")) return { fault };
    throw fault;
  }
}

function awayText(job: string, last: SeenStatus | null, silentMs: number): string {
  const step = last === null ? "" : `; last seen at step ${last.step} of ${last.steps}`;
  return `the broker of job ${job} has not answered for ${duration(silentMs)}${step}`;
}

function textOf({ job, directory }: Operator, status: SeenStatus | null, { json }: Options, columns?: number): string {
  const ranks = readRanks(directory);
  if (json) return JSON.stringify(status && ranks ? { ...status, ranks } : status);
  if (status) return statusText(status, columns, ranks);
  return `job ${job} has no status yet: its controller has not started, or still replays the journal`;
}
