/** What all commands of actors share: their options, and who may join a job. */
import { checkId } from "@muster/protocol";
import type { Command } from "commander";
import { findConnection } from "../composition/connection.ts";
import type { ActorOptions } from "../composition/open-process.ts";
import { errors } from "../errors.ts";
import { describeRun, sayRun } from "../job/run-state.ts";
import { durationOf, type LocationOptions, levelOf, locationOf, portOf, withLocation, withLogLevel } from "./common.ts";
import { type CommandName, listed } from "./list.ts";

/** Options of every actor. */
export interface Options extends LocationOptions {
  readonly id?: string;
  readonly logLevel: string;
  readonly metricsPort?: string;
  readonly json?: boolean;
  readonly supervised?: boolean;
  readonly grace: string;
  readonly node?: string;
  readonly rank?: string;
}

/** Begins the command of an actor. */
export function actorCommand(program: Command, name: CommandName): Command {
  return withLogLevel(withLocation(listed(program, name)))
    .option("--metrics-port <port>", "serve /metrics and /healthz on 127.0.0.1; 0 for any free port")
    .option("--grace <duration>", "how long leaving may take before the process ends anyway", "30s")
    .option("--json", "log lines of JSON on standard error, on a terminal too")
    .option("--supervised", "started by a supervisor that holds standard input open");
}

/** Ends of a job that are for good; one that was interrupted may go on under another process. */
const overStates: ReadonlySet<string> = new Set(["done", "stopped", "failed"]);

/** Options of a process that joins a job, which must not be over. @throws MUSTER_ERR_JOB_OVER */
export function memberOptions(options: Options, role: string): ActorOptions {
  const id = options.id ?? findConnection(locationOf(options), [role]).credentials[role]?.replica?.id;
  const actor = actorOptions(options, checkId("id", id ?? randomId(role)), [role]);
  const run = describeRun(actor.connection.directory, actor.connection.job);
  if (overStates.has(run.state)) throw errors.JobOver({ run: sayRun(run) });
  return actor;
}

/** Options of an actor with the credentials of some roles. */
export function actorOptions(options: Options, id: string, roles: readonly string[]): ActorOptions {
  return {
    connection: findConnection(locationOf(options), roles),
    id,
    ...(options.node === undefined ? {} : { node: checkId("node", options.node) }),
    logLevel: levelOf(options.logLevel),
    logTo: options.supervised === true ? "file" : options.json === true ? "stderr" : "people",
    metricsPort: options.metricsPort === undefined ? null : portOf("metrics-port", options.metricsPort),
    supervised: options.supervised === true,
    graceMs: durationOf("grace", options.grace),
  };
}

function randomId(role: string): string {
  return `${role}-${Math.random().toString(36).slice(2, 8)}`;
}
