/** Runs a replica, or one rank of it, as a process: its signals, its exit code. */
import { type Replica, type Role, runReplica } from "@muster/actors";
import { type Logger, messageOf } from "@muster/base";
import { claimTrajectoryFault, type RankProgram } from "@muster/engine";
import { type ExitCode, exitCodes, installLifecycle } from "@muster/runtime";
import { createEnvironment } from "./environment.ts";
import { type ActorOptions, openProcess } from "./open-process.ts";

/** A role that needs something open beside it, for as long as its process lives. */
export interface OpenedRole {
  readonly role: string;
  open(logger: Logger): Promise<Role>;
  close(): Promise<void>;
}

/** Runs a replica until it leaves. @returns The exit code of the process. */
export async function runReplicaProcess(source: Role | OpenedRole, options: ActorOptions): Promise<ExitCode> {
  if (!("open" in source))
    return await runReplicaProcess({ role: source.role, open: async () => source, close: async () => {} }, options);
  const { logger, metrics, say, close } = await openProcess(options, source.role);
  try {
    const role = await source.open(logger);
    return await liveAs(role, options, { logger, metrics, say });
  } finally {
    await source.close();
    await close();
  }
}

async function liveAs(
  role: Role,
  options: ActorOptions,
  { logger, metrics, say }: Pick<Awaited<ReturnType<typeof openProcess>>, "logger" | "metrics" | "say">,
): Promise<ExitCode> {
  const { connection, node, life } = options;
  const environment = createEnvironment({ connection, node, life, logger, metrics });
  const replica: Replica = runReplica(role, { job: options.connection.job, id: options.id, environment });
  const exitCode = replica.ended.then(({ outcome, reason }): ExitCode => {
    logger.info({ outcome, reason }, "replica ended");
    if (outcome === "left") return exitCodes.ok;
    say(reason);
    return outcome === "refused" ? exitCodes.badInput : outcome === "fenced" ? exitCodes.temporary : exitCodes.failed;
  });
  const uninstall = installLifecycle({
    onStop: async (reason) => {
      replica.stop(reason);
      return await exitCode;
    },
    graceMs: options.graceMs,
    logger,
    say,
    claimFault: claimTrajectoryFault,
    supervised: options.supervised,
  });
  const code = await exitCode;
  uninstall();
  return code;
}

/** Runs what a process does that is not rank 0 of its replica. @returns The exit code of the process. */
export async function runRankProcess(
  begin: (logger: Logger) => Promise<RankProgram>,
  options: ActorOptions & { readonly role: string },
): Promise<ExitCode> {
  const { logger, say, close } = await openProcess(options, options.role);
  let code: ExitCode = exitCodes.ok;
  try {
    const program = await begin(logger);
    logger.info({}, "the rank works");
    const ended = program.ended.catch((error: unknown) => {
      logger.error({ error }, "the rank can not go on");
      say(messageOf(error));
      code = exitCodes.failed;
    });
    const uninstall = installLifecycle({
      onStop: async () => {
        await program.close();
        return exitCodes.ok;
      },
      graceMs: options.graceMs,
      logger,
      say,
      supervised: options.supervised,
    });
    await ended;
    uninstall();
    await program.close();
  } finally {
    await close();
  }
  return code;
}
