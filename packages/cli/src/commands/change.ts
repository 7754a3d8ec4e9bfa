/** `muster change`: settings of a running job, from one of its next steps on. */
import type { Command } from "commander";
import { type CommandOptions, giveCommand, withCommandOptions } from "../job/give-command.ts";
import { changeableText, settingsOf } from "../job/settings.ts";
import { stepOf } from "./common.ts";
import { listed } from "./list.ts";

/** Adds the command. */
export function addChangeCommand(program: Command): void {
  withCommandOptions(
    listed(program, "change")
      .argument("<settings...>")
      .description(`change settings of a job, e.g. optimizer.lr=0.0005; there are ${changeableText}`),
  )
    .option("--from-step <n>", "first step with them (default: the next one that has not begun)")
    .option("--json", "end with one line of JSON")
    .action(async (pairs: readonly string[], options: CommandOptions & { readonly fromStep?: string }) => {
      const fromStep = stepOf("from-step", options.fromStep);
      const body = { settings: settingsOf(pairs), ...(fromStep === undefined ? {} : { fromStep }) };
      process.exitCode = await giveCommand(options, { kind: "job.change", body });
    });
}
