/** `muster policy | rollout | checkpoint | controller`: one actor, joining a job. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { checkpointRole, policyRole, type Role, rolloutRole } from "@muster/actors";
import { messageOf } from "@muster/base";
import { checkId, jobConfigSchema } from "@muster/protocol";
import type { Command } from "commander";
import { type ActorOptions, runControllerProcess, runReplicaProcess } from "../composition/actor-process.ts";
import { findConnection } from "../composition/connection.ts";
import { dataKeyOf } from "../composition/data-key.ts";
import { errors } from "../errors.ts";
import { durationOf, type LocationOptions, levelOf, locationOf, portOf, withLocation, withLogLevel } from "./common.ts";

interface Options extends LocationOptions {
  readonly id?: string;
  readonly logLevel: string;
  readonly metricsPort?: string;
  readonly supervised?: boolean;
  readonly grace: string;
}

interface ControllerOptions extends Options {
  readonly standby?: boolean;
  readonly silence: string;
}

const replicas = {
  policy: { role: policyRole, says: "start a policy replica (trainer) and join a job" },
  rollout: { role: rolloutRole, says: "start a rollout replica (sampler) and join a job" },
  checkpoint: { role: checkpointRole, says: "start a checkpoint actor and join a job" },
} as const;

/** Adds the actor commands. */
export function addActorCommands(program: Command): void {
  for (const [name, { role, says }] of Object.entries(replicas))
    actorCommand(program, name, says)
      .option("--id <id>", `name of the replica (default: ${name}-<random>)`)
      .action(async (options: Options) => {
        process.exitCode = await joinJob(role, options);
      });
  actorCommand(program, "controller", "start the controller of a job, or take a job over")
    .option("--id <id>", "name of its log", "controller")
    .option("--standby", "wait until the controller that acts is gone, then take over")
    .option("--silence <duration>", "with --standby: how long nobody may have acted", "5s")
    .action(async (options: ControllerOptions) => {
      process.exitCode = await control(options);
    });
}

function actorCommand(program: Command, name: string, says: string): Command {
  return withLogLevel(withLocation(program.command(name).description(says)))
    .option("--metrics-port <port>", "serve /metrics and /healthz on 127.0.0.1; 0 for any free port")
    .option("--grace <duration>", "how long leaving may take before the process ends anyway", "30s")
    .option("--supervised", "started by a supervisor that holds standard input open");
}

async function joinJob(role: Role, options: Options) {
  return await runReplicaProcess(role, actorOptions(options, checkId("id", options.id ?? randomId(role.role))));
}

async function control(options: ControllerOptions) {
  const actor = actorOptions(options, checkId("id", options.id ?? "controller"));
  const path = join(actor.connection.directory, "job.json");
  return await runControllerProcess({
    ...actor,
    config: readJobConfig(path),
    dataKey: dataKeyOf(actor.connection.directory),
    standbyMs: options.standby ? durationOf("silence", options.silence) : null,
  });
}

function actorOptions(options: Options, id: string): ActorOptions {
  return {
    connection: findConnection(locationOf(options)),
    id,
    logLevel: levelOf(options.logLevel),
    logToFile: options.supervised === true,
    metricsPort: options.metricsPort === undefined ? null : portOf("metrics-port", options.metricsPort),
    supervised: options.supervised === true,
    graceMs: durationOf("grace", options.grace),
  };
}

function readJobConfig(path: string) {
  try {
    return jobConfigSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw errors.RunFile({ path, reason: messageOf(error) }, error);
  }
}

function randomId(role: string): string {
  return `${role}-${Math.random().toString(36).slice(2, 8)}`;
}
