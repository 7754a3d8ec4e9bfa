/** `muster watch`: the public events of a job as they happen. */

import { type EventMessage, whenAborted } from "@muster/client";
import { type ExitCode, exitCodes } from "@muster/runtime";
import type { Command } from "commander";
import { pasted } from "../composition/pasted.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { type Operator, sayOver, withJob } from "../job/open-job.ts";
import type { RunState } from "../job/run-state.ts";
import { cleanLine } from "../report/text.ts";
import { readEvents } from "../run/read-events.ts";
import { terminalOf } from "../terminal/terminal.ts";
import { eventJson, eventLine } from "../view/event-line.ts";
import { type LocationOptions, withLocation } from "./common.ts";
import { listed } from "./list.ts";

interface Options extends LocationOptions {
  readonly json?: boolean;
  readonly fromStart?: boolean;
}

/** Adds the command. */
export function addWatchCommand(program: Command): void {
  withLocation(listed(program, "watch"))
    .option("--from-start", "begin with the first event that is still stored")
    .option("--json", "write one line of JSON per event")
    .action(async (options: Options) => {
      process.exitCode = await untilInterrupted((signal) =>
        withJob(
          options,
          (operator) => watch(operator, options, signal),
          (run) => watchOver(run, options),
        ),
      );
    });
}

async function watch(operator: Operator, options: Options, signal: AbortSignal): Promise<ExitCode> {
  const { job, client } = operator;
  let end: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const events = await client.follow({
    fromSeq: options.fromStart ? 1 : "new",
    take: (event, seq) => {
      show(event, seq, options);
      if (event.kind === "job.ended") end();
    },
    unreadable: (seq, reason) => say(`event ${seq} can not be read: ${reason}`),
  });
  const stopTelling = client.onConnection((isConnected) =>
    say(isConnected ? "the broker is back" : "the broker is away; the events go on when it is back"),
  );
  try {
    // An end before the first event that is followed would never be seen.
    if (!options.fromStart && (await client.status())?.phase === "stopped") {
      say(`job ${job} has ended; its events: ${pasted("watch", ...operator.way, "--from-start")}`);
      return exitCodes.ok;
    }
    await Promise.race([ended, whenAborted(signal)]);
    return exitCodes.ok;
  } finally {
    stopTelling();
    await events.close();
  }
}

/** A job that is over has its events in the folder of its run. */
function watchOver(run: RunState, options: Options): ExitCode {
  if (options.fromStart) for (const { event, seq } of readEvents(run.directory)) show(event, seq, options);
  if (!options.fromStart || !options.json) return sayOver(run, options.json === true);
  return exitCodes.ok;
}

function show(event: EventMessage, seq: number, { json }: Options): void {
  const { hasColour } = terminalOf(process.stdout, process.env);
  process.stdout.write(`${json ? eventJson(event, seq) : eventLine(event, hasColour)}\n`);
}

function say(line: string): void {
  process.stderr.write(`muster: ${cleanLine(line)}\n`);
}
