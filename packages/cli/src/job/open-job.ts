/** The operator's way to a job: found by its folder, entered with the operator's credentials, left again whatever happens. */
import { randomBytes } from "node:crypto";
import { hasCode } from "@muster/base";
import type { ExitCode } from "@muster/runtime";
import { connectNats, type Transport } from "@muster/transport";
import { type LocationOptions, locationOf } from "../commands/common.ts";
import { credentialsOf, findConnection, type JobConnection } from "../composition/connection.ts";
import { wayTo } from "../composition/pasted.ts";
import { describeRun, type RunState, sayRun } from "./run-state.ts";

/** A running job, as an operator sees it. */
export interface OperatorDoor {
  readonly job: string;
  /** The options by which another command finds this job. */
  readonly way: readonly string[];
  readonly transport: Transport;
  /** This command's life, for the envelopes that it sends. */
  readonly incarnation: string;
}

type Found = JobConnection & { readonly directory: string };

const connectTimeoutMs = 3_000;

/**
 * Connects to the job and works there. A job of this host that is over is no fault: it is described on standard output instead,
 * and the command succeeds, since there is nothing left to ask or to stop.
 *
 * @throws MUSTER_ERR_JOB_UNKNOWN, MUSTER_ERR_JOB_NONE, MUSTER_ERR_BROKER_UNREACHABLE, MUSTER_ERR_BROKER_AUTH
 */
export async function withJob(
  options: LocationOptions & { readonly json?: boolean },
  work: (door: OperatorDoor) => Promise<ExitCode>,
): Promise<ExitCode> {
  const connection = findConnection(locationOf(options), ["operator"]);
  const incarnation = `i${randomBytes(6).toString("hex")}`;
  const transport = await connect(connection, incarnation);
  if (!("publish" in transport)) {
    process.stdout.write(`${options.json ? JSON.stringify(transport) : sayRun(transport)}\n`);
    return 0;
  }
  try {
    return await work({ job: connection.job, way: wayOf(options, connection.job), transport, incarnation });
  } finally {
    await transport.close();
  }
}

function wayOf({ runs, nats, connection }: LocationOptions, job: string): readonly string[] {
  const more = { "--nats": nats, "--connection": connection };
  return [...wayTo(job, runs), ...Object.entries(more).flatMap(([name, value]) => (value ? [name, value] : []))];
}

/** The connection, or how the run ended when there is nobody to connect to any more. */
async function connect(connection: Found, incarnation: string): Promise<Transport | RunState> {
  const { url, job } = connection;
  const credentials = credentialsOf(connection, "operator");
  try {
    return await connectNats({ url, job, credentials, name: `operator.muster.${incarnation}`, connectTimeoutMs });
  } catch (error) {
    // Another server may have the port by now, so a refusal says as little as silence.
    const isAway = hasCode(error, "MUSTER_ERR_BROKER_UNREACHABLE") || hasCode(error, "MUSTER_ERR_BROKER_AUTH");
    const run = isAway ? describeRun(connection.directory, job) : null;
    if (!run || run.state === "running" || run.state === "unknown") throw error;
    return run;
  }
}
