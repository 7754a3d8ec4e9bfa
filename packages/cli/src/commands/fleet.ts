/** `muster scale | cordon | uncordon | replace | kill | cancel | send`: commands of an operator for the controller of a job. */
import { type Body, type CommandKind, checkId, commandKinds, killSignals, messageTable } from "@muster/protocol";
import type { Command } from "commander";
import { errors } from "../errors.ts";
import { type CommandOptions, giveCommand, withCommandOptions } from "../job/give-command.ts";
import { countsOf } from "./common.ts";
import { type CommandName, listed } from "./list.ts";

/** Adds one of them. */
export const addFleetCommand = {
  scale: (program: Command): void => {
    simple(program, "scale", "<counts...>").action(async (counts: readonly string[], options: CommandOptions) => {
      await give(options, "fleet.scale", countsOf("counts", counts));
    });
  },
  cordon: (program: Command): void => ofMember(program, "cordon", "fleet.cordon"),
  uncordon: (program: Command): void => ofMember(program, "uncordon", "fleet.uncordon"),
  replace: (program: Command): void => ofMember(program, "replace", "replica.replace"),
  kill: (program: Command): void => {
    simple(program, "kill", "<replica-id>")
      .option("--signal <name>", `one of ${killSignals.join(", ")}`, "SIGKILL")
      .action(async (id: string, options: CommandOptions & { readonly signal: string }) => {
        await give(options, "replica.kill", { id: checkId("replica-id", id), signal: signalOf(options.signal) });
      });
  },
  cancel: (program: Command): void => {
    simple(program, "cancel", "<command-id>").action(async (target: string, options: CommandOptions) => {
      await give(options, "command.cancel", { target: checkId("command-id", target) });
    });
  },
  send: addSendCommand,
};

function ofMember(
  program: Command,
  name: CommandName,
  kind: "fleet.cordon" | "fleet.uncordon" | "replica.replace",
): void {
  simple(program, name, "<id>").action(async (id: string, options: CommandOptions) => {
    await give(options, kind, { id: checkId("id", id) });
  });
}

function addSendCommand(program: Command): void {
  withCommandOptions(
    listed(program, "send").argument("<kind>").description("send any command of an operator as a message"),
  )
    .requiredOption("--json <body>", "body of the message, a JSON object")
    .action(async (kind: string, options: CommandOptions & { readonly json: string }) => {
      const known = commandKinds.find((each) => each === kind);
      if (!known)
        throw errors.ArgumentInvalid({
          argument: "kind",
          value: kind,
          reason: `use one of ${commandKinds.join(", ")}`,
        });
      await give(options, known, bodyOf(known, options.json));
    });
}

function simple(program: Command, name: CommandName, argument: string): Command {
  return withCommandOptions(listed(program, name).argument(argument)).option("--json", "end with one line of JSON");
}

async function give<K extends CommandKind>(options: CommandOptions, kind: K, body: Body<K>): Promise<void> {
  process.exitCode = await giveCommand(options, { kind, body });
}

function signalOf(name: string): Body<"replica.kill">["signal"] {
  const upper = name.toUpperCase();
  const signal = killSignals.find((each) => each === upper || each === `SIG${upper}`);
  if (signal) return signal;
  throw errors.OptionInvalid({ option: "signal", value: name, reason: `is not one of ${killSignals.join(", ")}` });
}

/** The body, checked as the controller will check it. */
function bodyOf<K extends CommandKind>(kind: K, text: string): Body<K> {
  const parsed = messageTable[kind].body.safeParse(parseJson(text));
  if (parsed.success) return parsed.data as Body<K>;
  const issue = parsed.error.issues[0];
  const field = issue?.path.join(".") || "the body";
  throw errors.OptionInvalid({ option: "json", value: text.slice(0, 80), reason: `${field}: ${issue?.message}` });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw errors.OptionInvalid({ option: "json", value: text.slice(0, 80), reason: "is not JSON" });
  }
}
