/** Gives a controller a command, and waits for the event that says what became of it. */

import { randomBytes } from "node:crypto";
import type { CommandEnd } from "@muster/client";
import { type Body, type CommandKind, checkId } from "@muster/protocol";
import { type ExitCode, exitCodes } from "@muster/runtime";
import type { Command } from "commander";
import { durationOf, type LocationOptions, withLocation } from "../commands/common.ts";
import { pasted } from "../composition/pasted.ts";
import { errors } from "../errors.ts";
import { cleanLine } from "../report/text.ts";
import { untilInterrupted } from "./interrupt.ts";
import { withJob } from "./open-job.ts";

/** Options of every command for a controller. */
export interface CommandOptions extends LocationOptions {
  readonly commandId?: string;
  readonly timeout: string;
  /** False with `--no-wait`: the command is taken, and that is enough. */
  readonly wait: boolean;
  readonly json?: boolean | string;
}

/** Adds the options by which a command is named and waited for. */
export function withCommandOptions(command: Command): Command {
  return withLocation(command)
    .option("--command-id <id>", "id of the command: the same id again is the same command (default: a new one)")
    .option("--timeout <duration>", "how long to wait until it is done", "60s")
    .option("--no-wait", "do not wait until it is done, only until it is taken");
}

/** Id of a command: the given one, or a new one. @throws MUSTER_ERR_ID_INVALID */
export function commandIdOf(given: string | undefined): string {
  return given === undefined ? `c-${randomBytes(6).toString("hex")}` : checkId("command-id", given);
}

/** Gives the command, waits, and says what became of it. @returns The exit code. */
export async function giveCommand<K extends CommandKind>(
  options: CommandOptions,
  { kind, body }: { readonly kind: K; readonly body: Body<K> },
): Promise<ExitCode> {
  const commandId = commandIdOf(body.commandId ?? options.commandId);
  const timeoutMs = durationOf("timeout", options.timeout);
  return await untilInterrupted((signal) =>
    withJob({ ...options, json: options.json !== undefined }, async (operator) => {
      const until = options.wait ? "done" : "accepted";
      const end = await operator.client.command(kind, { ...body, commandId }, { timeoutMs, until, signal });
      if (end) return show({ commandId, kind, ...end }, options.json === true);
      throw errors.AnswerLate({
        what: `command ${commandId} (${kind}) was not answered`,
        timeout: options.timeout,
        hint: ` once a controller can; take it back with: ${pasted("cancel", commandId, ...operator.way)}`,
        watch: pasted("status", ...operator.way),
      });
    }),
  );
}

function show(end: { readonly commandId: string; readonly kind: string } & CommandEnd, isJson: boolean): ExitCode {
  const { commandId, kind, outcome, detail } = end;
  if (outcome === "refused" && !isJson) process.stderr.write(`muster: ${kind} refused: ${cleanLine(detail)}\n`);
  else {
    const line = { command_id: commandId, kind, outcome, detail };
    process.stdout.write(`${isJson ? JSON.stringify(line) : `${outcome}: ${cleanLine(detail)} (${commandId})`}\n`);
  }
  if (outcome === "refused") return exitCodes.badInput;
  return outcome === "done" || outcome === "accepted" ? exitCodes.ok : exitCodes.failed;
}
