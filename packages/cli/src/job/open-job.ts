/** The operator's way to a job: found by its folder, entered with the operator's credentials, left again whatever happens. */
import { setTimeout as sleep } from "node:timers/promises";
import { hasCode } from "@muster/base";
import { connectJob, type JobClient } from "@muster/client";
import { type ExitCode, exitCodes } from "@muster/runtime";
import { type LocationOptions, locationOf } from "../commands/common.ts";
import { credentialsOf, findConnection, type JobConnection } from "../composition/connection.ts";
import { wayTo } from "../composition/pasted.ts";
import { describeRun, type RunState, sayRun } from "./run-state.ts";

/** A running job, as an operator sees it. */
export interface Operator {
  readonly job: string;
  /** Folder of the run on this host; of a job of another host there is none. */
  readonly directory: string;
  /** The options by which another command finds this job. */
  readonly way: readonly string[];
  readonly client: JobClient;
}

type Found = JobConnection & { readonly directory: string };

const connectTimeoutMs = 3_000;
/** How long a run may still write its report when its broker has ended. */
const reportMs = 2_000;
/** Faults of a broker that is gone, or going. Another server may have its port by now, so a refusal says as little as silence. */
const goneCodes = ["UNREACHABLE", "AUTH", "TIMEOUT", "FAILED"].map((fault) => `MUSTER_ERR_BROKER_${fault}`);

/**
 * Connects to the job and works there. A job of this host that is over is described on standard output instead, and the command succeeds,
 * since there is nothing left to ask or to stop; unless `over` does otherwise.
 *
 * @param options - With a `role`, its credentials do where there are none of the operator.
 * @throws MUSTER_ERR_JOB_UNKNOWN, MUSTER_ERR_JOB_NONE, MUSTER_ERR_BROKER_UNREACHABLE, MUSTER_ERR_BROKER_AUTH
 */
export async function withJob(
  options: LocationOptions & { readonly json?: boolean; readonly role?: "script" },
  work: (operator: Operator) => Promise<ExitCode>,
  over: (run: RunState) => ExitCode = (run) => sayOver(run, options.json === true),
): Promise<ExitCode> {
  const { role = "operator" } = options;
  const connection = findConnection(locationOf(options), ["operator", role]);
  const client = await connect(connection, role);
  if (!("follow" in client)) return over(client);
  try {
    const { job, directory } = connection;
    return await work({ job, directory, way: wayOf(options, connection.job), client });
  } catch (error) {
    // The job may end in the middle of the question, and its broker with it.
    const run = await endAfter(error, connection);
    if (run === null) throw error;
    return over(run);
  } finally {
    await client.close();
  }
}

/** Says how a job ended. */
export function sayOver(run: RunState, isJson: boolean): ExitCode {
  process.stdout.write(`${isJson ? JSON.stringify(run) : sayRun(run)}\n`);
  return exitCodes.ok;
}

function wayOf({ runs, nats, connection }: LocationOptions, job: string): readonly string[] {
  const more = { "--nats": nats, "--connection": connection };
  return [...wayTo(job, runs), ...Object.entries(more).flatMap(([name, value]) => (value ? [name, value] : []))];
}

/** The connection, or how the run ended when there is nobody to connect to any more. */
async function connect(connection: Found, role: string): Promise<JobClient | RunState> {
  const { url, job } = connection;
  const credentials = connection.credentials.operator ?? credentialsOf(connection, role);
  try {
    return await connectJob({ url, job, credentials, connectTimeoutMs });
  } catch (error) {
    const run = await endAfter(error, connection);
    if (run === null) throw error;
    return run;
  }
}

/** How the run ended that nobody answers for any more; `null` when it did not, or the fault has another cause. */
async function endAfter(error: unknown, { directory, job }: Found): Promise<RunState | null> {
  if (!goneCodes.some((code) => hasCode(error, code))) return null;
  for (const fromMs = performance.now(); ; await sleep(100)) {
    const run = describeRun(directory, job);
    if (run.state !== "running") return run.state === "unknown" ? null : run;
    if (performance.now() - fromMs > reportMs) return null;
  }
}
