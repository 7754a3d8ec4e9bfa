/** `muster status`: what the controller says of its job at this moment. */
import { setTimeout as pause } from "node:timers/promises";
import type { SeenStatus } from "@muster/client";
import { type ExitCode, exitCodes } from "@muster/runtime";
import type { Command } from "commander";
import { untilInterrupted } from "../job/interrupt.ts";
import { type OperatorDoor, withJob } from "../job/open-job.ts";
import { statusText } from "../view/status-text.ts";
import { type LocationOptions, withLocation } from "./common.ts";

interface Options extends LocationOptions {
  readonly json?: boolean;
  readonly watch?: boolean;
}

/** The controller writes it as often. */
const redrawMs = 1_000;
const clearScreen = "\u001b[H\u001b[2J\u001b[3J";

/** Adds the command. */
export function addStatusCommand(program: Command): void {
  withLocation(program.command("status").description("show a job: step, weights, mesh, ledger, members"))
    .option("--watch", "show it again every second until the job ends")
    .option("--json", "write one line of JSON, each time")
    .action(async (options: Options) => {
      process.exitCode = await untilInterrupted((signal) =>
        withJob(options, (door) => (options.watch ? watch(door, options, signal) : showOnce(door, options))),
      );
    });
}

async function showOnce(door: OperatorDoor, options: Options): Promise<ExitCode> {
  process.stdout.write(`${textOf(door.job, await door.client.status(), options)}\n`);
  return exitCodes.ok;
}

async function watch(door: OperatorDoor, options: Options, signal: AbortSignal): Promise<ExitCode> {
  const clear = process.stdout.isTTY && !options.json ? clearScreen : "";
  for (;;) {
    const status = await door.client.status();
    process.stdout.write(`${clear}${textOf(door.job, status, options)}\n${options.json || clear ? "" : "\n"}`);
    if (status?.phase === "stopped") return exitCodes.ok;
    await pause(redrawMs, null, { signal });
  }
}

function textOf(job: string, status: SeenStatus | null, { json }: Options): string {
  if (json) return JSON.stringify(status);
  if (status) return statusText(status);
  return `job ${job} has no status yet: its controller has not started, or still replays the journal`;
}
