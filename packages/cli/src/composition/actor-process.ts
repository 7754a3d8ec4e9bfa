/** Runs one actor as a process: its log, its metrics door, its signals, its exit code. */
import { join } from "node:path";
import {
  type Environment,
  newestCheckpointName,
  newestVerifiedCheckpoint,
  type Replica,
  type Role,
  runReplica,
  type StandbyEnd,
  standBy,
  startController,
} from "@muster/actors";
import type { Logger } from "@muster/base";
import { claimTrajectoryFault } from "@muster/engine";
import type { JobConfig } from "@muster/protocol";
import {
  createLogger,
  createMetrics,
  type ExitCode,
  exitCodes,
  installLifecycle,
  type LogLevel,
  sayLastWords,
  startMetricsServer,
} from "@muster/runtime";
import type { JobConnection } from "./connection.ts";
import { createEnvironment } from "./environment.ts";

/** Options that every actor command has. */
export interface ActorOptions {
  readonly connection: JobConnection & { readonly directory: string };
  readonly id: string;
  /** Node that started this process. */
  readonly node?: string;
  readonly logLevel: LogLevel;
  /** Log to `<job>/logs/<id>.log` instead of standard error. */
  readonly logToFile: boolean;
  readonly metricsPort: number | null;
  /** A child of `muster run`: standard input is held open by the parent, SIGINT is the parent's. */
  readonly supervised: boolean;
  /** How long a leaving process may take. */
  readonly graceMs: number;
}

/** Runs a replica until it leaves. @returns The exit code of the process. */
export async function runReplicaProcess(role: Role, options: ActorOptions): Promise<ExitCode> {
  const { logger, metrics, close } = await open(options, role.role);
  const { connection, node } = options;
  const environment = createEnvironment({ connection, node, logger, metrics });
  const replica: Replica = runReplica(role, { job: options.connection.job, id: options.id, environment });
  const exitCode = replica.ended.then(({ outcome, reason }): ExitCode => {
    logger.info({ outcome, reason }, "replica ended");
    if (outcome === "left") return exitCodes.ok;
    sayLastWords(reason);
    return outcome === "refused" ? exitCodes.badInput : outcome === "fenced" ? exitCodes.temporary : exitCodes.failed;
  });
  const uninstall = installLifecycle({
    onStop: async (reason) => {
      replica.stop(reason);
      return await exitCode;
    },
    graceMs: options.graceMs,
    logger,
    say: sayLastWords,
    claimFault: claimTrajectoryFault,
    supervised: options.supervised,
  });
  const code = await exitCode;
  uninstall();
  await close();
  return code;
}

/** Which job to control, and after how long a silence of its controller; `null` at once. */
export interface ControllerProcessOptions extends ActorOptions {
  readonly config: JobConfig;
  readonly dataKey: Uint8Array;
  readonly standbyMs: number | null;
  /** The operator says that the broker's store is lost for good. */
  readonly isStoreLost: boolean;
}

/** Runs the controller until the job ends. @returns The exit code of the process. */
export async function runControllerProcess(options: ControllerProcessOptions): Promise<ExitCode> {
  const { config, dataKey, standbyMs, isStoreLost } = options;
  const { logger, metrics, close } = await open(options, "controller");
  const environment = createEnvironment({ connection: options.connection, logger, metrics });
  if (standbyMs !== null && (await waitForVacancy(environment, options, standbyMs)) !== "vacant") {
    await close();
    return exitCodes.ok;
  }
  const controller = await startController({
    config,
    dataKey,
    environment,
    newestCheckpoint: newestCheckpointName,
    ...(isStoreLost ? { restoreLost: newestVersion } : {}),
  });
  const exitCode = controller.ended.then(({ outcome, reason }): ExitCode => {
    logger.info({ outcome, reason }, "controller ended");
    if (outcome === "failed") {
      sayLastWords(reason);
      return exitCodes.failed;
    }
    return outcome === "fenced" || outcome === "lost" ? exitCodes.temporary : exitCodes.ok;
  });
  const uninstall = installLifecycle({
    onStop: async (reason) => {
      controller.abort(reason);
      return await exitCode;
    },
    graceMs: options.graceMs,
    logger,
    say: sayLastWords,
    supervised: options.supervised,
  });
  const code = await exitCode;
  uninstall();
  await close();
  return code;
}

/** What a job whose store is lost goes on from. */
async function newestVersion(directory: string) {
  const newest = await newestVerifiedCheckpoint(directory);
  if (!newest) return null;
  const { step, version, lineage, term, path, manifestDigest, ledger } = newest;
  const { trained, aborted, quarantined } = ledger;
  return { term, found: { step, version, lineage, path, manifestDigest, ledger: { trained, aborted, quarantined } } };
}

/** Stands by until nobody acts for the job; ends when it is told to or when nobody holds its input open any more. */
async function waitForVacancy(environment: Environment, options: ActorOptions, silentMs: number): Promise<StandbyEnd> {
  const { clock, logger } = environment;
  const stop = new AbortController();
  const { job } = options.connection;
  const identity = { job, id: "controller", role: "controller", incarnation: environment.newIncarnation() } as const;
  const transport = await environment.connect(identity);
  const waited = standBy({ transport, clock, logger, silentMs, signal: stop.signal });
  const uninstall = installLifecycle({
    onStop: async () => {
      stop.abort();
      await waited;
      return exitCodes.ok;
    },
    graceMs: options.graceMs,
    logger,
    say: sayLastWords,
    supervised: options.supervised,
  });
  const end = await waited;
  logger.info({ end }, "standby ended");
  uninstall();
  await transport.close();
  return end;
}

async function open(options: ActorOptions, role: string) {
  const { connection, id, logLevel, logToFile, metricsPort } = options;
  const logger: Logger = createLogger({
    level: logLevel,
    destination: logToFile ? { path: join(connection.directory, "logs", `${id}.log`) } : "stderr",
    base: { job: connection.job, role, replica: id },
    pretty: !logToFile && process.stderr.isTTY === true,
  });
  const metrics = createMetrics();
  const server =
    metricsPort === null ? null : await startMetricsServer({ host: "127.0.0.1", port: metricsPort, metrics });
  if (server) logger.info({ port: server.port }, "metrics are served");
  return { logger, metrics, close: async () => server?.close() };
}
