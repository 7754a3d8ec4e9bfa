/** `muster controller`: the controller of a job. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { checkId, jobConfigSchema } from "@muster/protocol";
import type { Command } from "commander";
import { connectionRoles } from "../composition/connection.ts";
import { runControllerProcess } from "../composition/controller-process.ts";
import { dataKeyOf } from "../composition/data-key.ts";
import { errors } from "../errors.ts";
import { actorCommand, actorOptions, type Options } from "./actor-options.ts";
import { durationOf } from "./common.ts";

interface ControllerOptions extends Options {
  readonly standby?: boolean;
  readonly storeLost?: boolean;
  readonly prolonged?: boolean;
  readonly silence: string;
}

/** Adds the command. */
export function addControllerCommand(program: Command): void {
  actorCommand(program, "controller")
    .option("--id <id>", "name of its log", "controller")
    .option("--standby", "wait until the controller that acts is gone, then take over")
    .option("--store-lost", "the broker's store is lost for good: go on from the newest checkpoint")
    .option(
      "--prolonged",
      "the job was over: go on from its last checkpoint; muster run says it for --resume with more --steps",
    )
    .option("--silence <duration>", "with --standby: how long nobody may have acted", "5s")
    .action(async (options: ControllerOptions) => {
      process.exitCode = await control(options);
    });
}

async function control(options: ControllerOptions) {
  // Who is told of ended connections compares the users of all roles.
  const actor = actorOptions(options, checkId("id", options.id ?? "controller"), connectionRoles);
  const path = join(actor.connection.directory, "job.json");
  return await runControllerProcess({
    ...actor,
    config: readJobConfig(path),
    dataKey: dataKeyOf(actor.connection.directory),
    isStoreLost: options.storeLost === true,
    isProlonged: options.prolonged === true,
    standbyMs: options.standby ? durationOf("silence", options.silence) : null,
  });
}

function readJobConfig(path: string) {
  try {
    return jobConfigSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw errors.RunFile({ path, reason: messageOf(error) }, error);
  }
}
