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
import { type Logger, messageOf } from "@muster/base";
import { claimTrajectoryFault, type RankProgram } from "@muster/engine";
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
  systemClock,
} from "@muster/runtime";
import { ReplicaView } from "../terminal/replica-view.ts";
import { terminalOf } from "../terminal/terminal.ts";
import type { JobConnection } from "./connection.ts";
import { createEnvironment } from "./environment.ts";

/** Options that every actor command has. */
export interface ActorOptions {
  readonly connection: JobConnection & { readonly directory: string };
  readonly id: string;
  /** Node that started this process. */
  readonly node?: string;
  /** Life of the replica of several processes that it speaks for. */
  readonly life?: number;
  readonly logLevel: LogLevel;
  /** `file`: to `<job>/logs/<id>.log`. `people`: there, and for a person on standard error, where that is a terminal; else as `stderr`. */
  readonly logTo: "file" | "people" | "stderr";
  readonly metricsPort: number | null;
  /** A child of `muster run`: standard input is held open by the parent, SIGINT is the parent's. */
  readonly supervised: boolean;
  /** How long a leaving process may take. */
  readonly graceMs: number;
}

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
  const { logger, metrics, say, close } = await open(options, source.role);
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
  { logger, metrics, say }: Pick<Awaited<ReturnType<typeof open>>, "logger" | "metrics" | "say">,
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
  const { logger, say, close } = await open(options, options.role);
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
  const { logger, metrics, say, close } = await open(options, "controller");
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
      say(reason);
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
    say,
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
  const { step, version, lineage, term, path, manifestDigest, ledger, cursor } = newest;
  const { trained, aborted, quarantined } = ledger;
  const input = cursor ? { cursor } : {};
  return {
    ...input,
    term,
    found: { step, version, lineage, path, manifestDigest, ledger: { trained, aborted, quarantined } },
  };
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
  const { metricsPort } = options;
  const { logger, end } = openLog(options, role);
  const metrics = createMetrics();
  const server =
    metricsPort === null ? null : await startMetricsServer({ host: "127.0.0.1", port: metricsPort, metrics });
  if (server) logger.info({ port: server.port }, "metrics are served");
  const say = (sentence: string): void => {
    end();
    sayLastWords(sentence);
  };
  return {
    ...{ logger, metrics, say },
    async close() {
      end();
      await server?.close();
    },
  };
}

/** The log of a process: its file, lines of JSON on standard error, or, for a person at a terminal, the file and a few lines. */
function openLog(options: ActorOptions, role: string): { readonly logger: Logger; readonly end: () => void } {
  const { connection, id, logLevel: level, logTo } = options;
  const base = { job: connection.job, role, replica: id };
  const path = join(connection.directory, "logs", `${id}.log`);
  const terminal = terminalOf(process.stderr, process.env);
  if (logTo === "file") return { logger: createLogger({ level, destination: { path }, base }), end: () => {} };
  const isForPeople = logTo === "people" && terminal.isLive;
  // A controller has no work of its own to show: its log is what it says.
  if (!isForPeople || role === "controller")
    return { logger: createLogger({ level, destination: "stderr", base, pretty: isForPeople }), end: () => {} };
  const view = new ReplicaView({ terminal, clock: systemClock(), wallMs: Date.now, id, role });
  view.say(`  ${id} joins job ${connection.job}; Ctrl-C and it hands back its work and leaves; log: ${path}`);
  const onLine = (line: string): void => view.take(line);
  const end = (): void => view.end();
  // A process that ends at once gives the cursor back all the same.
  process.on("exit", end);
  return { logger: createLogger({ level, destination: { path, onLine }, base }), end };
}
