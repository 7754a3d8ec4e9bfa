/** The nats-server that a run would use: the one it starts, or the one that MUSTER_NATS_URL names. */
import { messageOf } from "@muster/base";
import { connectNats, serverVersionMin } from "@muster/transport";
import { credentialsOf, readCredentials } from "../composition/connection.ts";
import { plainTextWarning } from "../composition/plain-text.ts";
import { findNatsServer } from "../run/broker.ts";
import { type Check, isAtLeast, missing, ok, warn } from "./check.ts";
import { versionLineOf } from "./tools.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const connectTimeoutMs = 3_000;
const name = "nats-server";

/** Checks the broker, within seconds. */
export async function checkBroker(env: Environment): Promise<Check> {
  try {
    return await (env.MUSTER_NATS_URL ? checkExternal(env.MUSTER_NATS_URL, env) : checkProgram(env));
  } catch (error) {
    const fix = env.MUSTER_NATS_URL
      ? "start that server, mend MUSTER_NATS_URL or MUSTER_NATS_CREDENTIALS, or unset both to have each run start its own"
      : getOne;
    return missing(name, messageOf(error), fix);
  }
}

const getOne = `run "npm run setup", or set MUSTER_NATS_SERVER to nats-server ${serverVersionMin} or newer`;

function checkProgram(env: Environment): Check {
  const program = findNatsServer(env);
  const line = versionLineOf(program);
  const version = /v(\d+\.\d+\.\d+)/.exec(line ?? "")?.[1];
  if (version === undefined) return missing(name, `${program} does not run`, getOne);
  if (isAtLeast(version, serverVersionMin)) return ok(name, `${version} at ${program}`);
  return missing(name, `${program} is version ${version}, older than ${serverVersionMin}`, getOne);
}

/** Connects as an operator would: that proves address, version, user and password. */
async function checkExternal(url: string, env: Environment): Promise<Check> {
  const path = env.MUSTER_NATS_CREDENTIALS;
  if (!path)
    return missing(
      name,
      "MUSTER_NATS_URL is set, MUSTER_NATS_CREDENTIALS is not",
      "name the JSON file with its users by role",
    );
  const credentials = credentialsOf(
    { job: "doctor", url, credentials: readCredentials(path), source: path },
    "operator",
  );
  const connection = { url, job: "doctor", credentials, name: "operator.doctor.0", connectTimeoutMs };
  const transport = await connectNats(connection);
  await transport.close();
  const warning = plainTextWarning(url);
  return warning === null ? ok(name, `answers at ${url}`) : warn(name, `answers at ${url}`, warning);
}
