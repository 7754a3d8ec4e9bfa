/** Runs the controller of a job as a process. */
import type { Environment } from "@muster/actors";
import {
  newestCheckpointName,
  newestVerifiedCheckpoint,
  type StandbyEnd,
  standBy,
  startController,
} from "@muster/actors/controller";
import type { JobConfig } from "@muster/protocol";
import { type ExitCode, exitCodes, installLifecycle, sayLastWords } from "@muster/runtime";
import { createEnvironment } from "./environment.ts";
import { type ActorOptions, openProcess } from "./open-process.ts";

/** Which job to control, and after how long a silence of its controller; `null` at once. */
export interface ControllerProcessOptions extends ActorOptions {
  readonly config: JobConfig;
  readonly dataKey: Uint8Array;
  readonly standbyMs: number | null;
  /** The operator says that the broker's store is lost for good. */
  readonly isStoreLost: boolean;
  /** The job was over, and goes on from its last checkpoint. */
  readonly isProlonged: boolean;
}

/** Runs the controller until the job ends. @returns The exit code of the process. */
export async function runControllerProcess(options: ControllerProcessOptions): Promise<ExitCode> {
  const { config, dataKey, standbyMs, isStoreLost, isProlonged } = options;
  const { logger, metrics, say, close } = await openProcess(options, "controller");
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
    ...(isStoreLost || isProlonged ? { restoreLost: (directory) => newestVersion(directory, isProlonged) } : {}),
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

/** What a job whose store is lost, or that is prolonged, goes on from. */
async function newestVersion(directory: string, isEnd: boolean) {
  const newest = await newestVerifiedCheckpoint(directory);
  if (!newest) return null;
  const { step, version, lineage, term, path, manifestDigest, ledger, cursor } = newest;
  const { trained, aborted, quarantined } = ledger;
  const input = cursor ? { cursor } : {};
  return {
    ...input,
    term,
    found: {
      step,
      version,
      lineage,
      path,
      manifestDigest,
      ledger: { trained, aborted, quarantined },
      ...(isEnd ? { isEnd } : {}),
    },
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
