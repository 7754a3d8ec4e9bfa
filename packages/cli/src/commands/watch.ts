/** `muster watch`: the public events of a job as they happen. */

import { whenAborted } from "@muster/client";
import { type ExitCode, exitCodes } from "@muster/runtime";
import type { Command } from "commander";
import { pasted } from "../composition/pasted.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { type OperatorDoor, withJob } from "../job/open-job.ts";
import { cleanLine } from "../report/index.ts";
import { eventJson, eventLine } from "../view/event-line.ts";
import { type LocationOptions, withLocation } from "./common.ts";

interface Options extends LocationOptions {
  readonly json?: boolean;
  readonly fromStart?: boolean;
}

/** Adds the command. */
export function addWatchCommand(program: Command): void {
  withLocation(program.command("watch").description("follow the events of a job until it ends"))
    .option("--from-start", "begin with the first event that is still stored")
    .option("--json", "write one line of JSON per event")
    .action(async (options: Options) => {
      process.exitCode = await untilInterrupted((signal) => withJob(options, (door) => watch(door, options, signal)));
    });
}

async function watch(door: OperatorDoor, options: Options, signal: AbortSignal): Promise<ExitCode> {
  const { job, client } = door;
  let end: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const events = await client.follow({
    fromSeq: options.fromStart ? 1 : "new",
    take: (event, seq) => {
      process.stdout.write(`${options.json ? eventJson(event, seq) : eventLine(event)}\n`);
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
      say(`job ${job} has ended; its events: ${pasted("watch", ...door.way, "--from-start")}`);
      return exitCodes.ok;
    }
    await Promise.race([ended, whenAborted(signal)]);
    return exitCodes.ok;
  } finally {
    stopTelling();
    await events.close();
  }
}

function say(line: string): void {
  process.stderr.write(`muster: ${cleanLine(line)}\n`);
}
