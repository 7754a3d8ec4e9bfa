/** `muster stop`: asks the controller to end its job, and waits for the end. */

import { type EventMessage, statusAgeMaxMs } from "@muster/client";
import type { Body } from "@muster/protocol";
import { type ExitCode, exitCodes } from "@muster/runtime";
import type { Command } from "commander";
import { pasted } from "../composition/pasted.ts";
import { errors } from "../errors.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { type Operator, withJob } from "../job/open-job.ts";
import { cleanLine } from "../report/text.ts";
import { durationOf, type LocationOptions, withLocation } from "./common.ts";
import { listed } from "./list.ts";

interface Options extends LocationOptions {
  readonly reason: string;
  readonly timeout: string;
  readonly json?: boolean;
}

const reasonLengthMax = 500;

/** Adds the command. */
export function addStopCommand(program: Command): void {
  withLocation(listed(program, "stop"))
    .option("--reason <text>", "why, for the record", "stopped by an operator")
    .option("--timeout <duration>", "how long to wait for the end", "60s")
    .option("--json", "end with one line of JSON")
    .action(async (options: Options) => {
      const { reason } = options;
      if (reason.length > reasonLengthMax)
        throw errors.OptionInvalid({
          option: "reason",
          value: `${reason.slice(0, 20)}…`,
          reason: `has ${reason.length} characters; use at most ${reasonLengthMax}`,
        });
      const timeoutMs = durationOf("timeout", options.timeout);
      process.exitCode = await untilInterrupted((signal) =>
        withJob(options, (operator) => stop(operator, options, { timeoutMs, signal })),
      );
    });
}

async function stop(
  operator: Operator,
  options: Options,
  wait: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<ExitCode> {
  const { job } = operator;
  const { reason, timeout } = options;
  const ended = await operator.client.ask({ kind: "job.stop", body: { reason }, fromSeq: 1, answer: endOf, ...wait });
  if (!ended) {
    const status = await operator.client.status();
    const isGone = !status || status.ageMs > statusAgeMaxMs;
    throw errors.AnswerLate({
      what: `job ${job} did not end`,
      timeout,
      hint: isGone ? " by its next controller; none seems to be running now" : " after the step that runs",
      watch: pasted("status", ...operator.way),
    });
  }
  const { outcome, step, version } = ended;
  const text = `job ${job} ended: ${outcome} at step ${step}, version ${version} (${cleanLine(ended.reason)})`;
  process.stdout.write(`${options.json ? JSON.stringify({ job, ...ended }) : text}\n`);
  return outcome === "failed" ? exitCodes.failed : exitCodes.ok;
}

/** A job ends once, so an end of any time is the answer. */
function endOf({ kind, body }: EventMessage): Body<"job.ended"> | null {
  return kind === "job.ended" ? body : null;
}
