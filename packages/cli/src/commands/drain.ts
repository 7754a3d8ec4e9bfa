/** `muster drain`: asks the controller to release one replica, and waits until it has left. */

import type { EventMessage } from "@muster/client";
import { checkId } from "@muster/protocol";
import { type ExitCode, exitCodes } from "@muster/runtime";
import type { Command } from "commander";
import { pasted } from "../composition/pasted.ts";
import { errors } from "../errors.ts";
import { commandIdOf } from "../job/give-command.ts";
import { untilInterrupted } from "../job/interrupt.ts";
import { type Operator, withJob } from "../job/open-job.ts";
import { sayRun } from "../job/run-state.ts";
import { cleanLine } from "../report/text.ts";
import { durationOf, type LocationOptions, withLocation } from "./common.ts";
import { listed } from "./list.ts";

interface Options extends LocationOptions {
  readonly commandId?: string;
  readonly timeout: string;
  readonly json?: boolean;
}

/** How a replica went; `absent` when it was no member to begin with. */
interface Departure {
  readonly how: "left" | "died" | "absent" | "refused";
  readonly reason: string;
}

/** Adds the command. */
export function addDrainCommand(program: Command): void {
  withLocation(listed(program, "drain"))
    .argument("<replica-id>", "id of the replica, as muster status shows it")
    .option("--command-id <id>", "id of the command: the same id again is the same command (default: a new one)")
    .option("--timeout <duration>", "how long to wait until it has left", "60s")
    .option("--json", "end with one line of JSON")
    .action(async (replicaId: string, options: Options) => {
      const id = checkId("replica-id", replicaId);
      const timeoutMs = durationOf("timeout", options.timeout);
      process.exitCode = await untilInterrupted((signal) =>
        withJob(
          options,
          async (operator) => show(id, await drain(operator, id, { timeoutMs, signal, options }), options),
          (run) => show(id, { how: "absent", reason: sayRun(run) }, options),
        ),
      );
    });
}

async function drain(
  operator: Operator,
  id: string,
  wait: { readonly timeoutMs: number; readonly signal: AbortSignal; readonly options: Options },
): Promise<Departure> {
  const status = await operator.client.status();
  // A status that leaves rows out does not say who is absent: then the controller does.
  const isWhole = status !== null && status.membersLeftOut + status.fleet.leftOut.replicas === 0;
  const members = isWhole && [...status.members, ...status.fleet.replicas];
  const commandId = commandIdOf(wait.options.commandId);
  // Only the controller knows whether a command of this id was done before.
  if (members && wait.options.commandId === undefined && !members.some((each) => each.id === id))
    return {
      how: "absent",
      reason: `members are ${[...new Set(members.map((each) => each.id))].join(", ") || "none"}`,
    };
  const { timeoutMs, signal, options } = wait;
  const answer = (event: EventMessage): Departure | null => departureOf(event, id, commandId);
  const departure = await operator.client.ask({
    kind: "replica.drain",
    body: { id, commandId },
    fromSeq: "new",
    answer,
    timeoutMs,
    signal,
  });
  if (departure) return departure;
  throw errors.AnswerLate({
    what: `${id} did not leave`,
    timeout: options.timeout,
    hint: " when nothing depends on it any more",
    watch: pasted("status", ...operator.way),
  });
}

function departureOf({ kind, body }: EventMessage, id: string, commandId: string): Departure | null {
  if (kind === "command.refused" && body.commandId === commandId) return { how: "refused", reason: body.reason };
  if (kind === "fleet.changed" && body.id === id && body.to === "LEFT") return { how: "left", reason: body.reason };
  if (kind === "job.ended") return { how: "left", reason: "the job has ended" };
  if (kind === "member.left" && body.id === id) return { how: "left", reason: body.reason };
  if (kind === "member.died" && body.id === id) return { how: "died", reason: body.evidence };
  return null;
}

function show(id: string, { how, reason }: Departure, { json }: Options): ExitCode {
  const isDone = how === "left" || how === "died";
  const fault = how === "absent" ? `${id} is no member` : "replica.drain refused";
  const text = isDone ? `${id} ${how === "left" ? "has left" : "died"}` : `muster: ${fault}`;
  const stream = isDone || json ? process.stdout : process.stderr;
  stream.write(`${json ? JSON.stringify({ id, how, reason }) : `${text}: ${cleanLine(reason)}`}\n`);
  return isDone ? exitCodes.ok : exitCodes.badInput;
}
