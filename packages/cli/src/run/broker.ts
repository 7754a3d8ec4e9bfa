/** The broker of a run: its own nats-server on loopback, or one that the operator runs. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Credentials } from "@muster/transport";
import { prepareJob, startLocalServer } from "@muster/transport";
import { readCredentials } from "../composition/connection.ts";
import { errors } from "../errors.ts";

/** A broker that a run can use. */
export interface Broker {
  readonly url: string;
  readonly credentials: Readonly<Record<string, Credentials>>;
  stop(): Promise<void>;
}

/** Starts or finds the broker, checks that it refuses anonymous clients, and prepares the job's streams. */
export async function openBroker(options: {
  readonly job: string;
  readonly directory: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onExit: (detail: string) => void;
}): Promise<Broker> {
  const { job, directory, env } = options;
  const broker = env.MUSTER_NATS_URL ? externalBroker(env.MUSTER_NATS_URL, env) : await localBroker(options);
  const credentials = broker.credentials.controller;
  if (!credentials) throw errors.CredentialsMissing({ role: "controller", path: directory });
  try {
    await prepareJob({ url: broker.url, job, credentials, connectTimeoutMs: 10_000 });
  } catch (error) {
    await broker.stop();
    throw error;
  }
  return broker;
}

async function localBroker(options: Parameters<typeof openBroker>[0]): Promise<Broker> {
  const server = await startLocalServer({
    binary: findNatsServer(options.env),
    directory: join(options.directory, "nats"),
    job: options.job,
    onExit: ({ code, signal }) => options.onExit(`nats-server ended with ${signal ?? `code ${code}`}`),
  });
  return { url: server.url, credentials: server.credentials, stop: () => server.stop() };
}

function externalBroker(url: string, env: Readonly<Record<string, string | undefined>>): Broker {
  const path = env.MUSTER_NATS_CREDENTIALS;
  if (!path) throw errors.ExternalCredentials({ variable: "MUSTER_NATS_CREDENTIALS" });
  return { url, credentials: readCredentials(path), stop: async () => {} };
}

/** The nats-server program: MUSTER_NATS_SERVER, the project's own, or one on the PATH. @throws MUSTER_ERR_NATS_BINARY */
export function findNatsServer(env: Readonly<Record<string, string | undefined>>): string {
  if (env.MUSTER_NATS_SERVER) return env.MUSTER_NATS_SERVER;
  const own = fileURLToPath(new URL("../../../../.muster/bin/nats-server", import.meta.url));
  const onPath = (env.PATH ?? "").split(delimiter).map((folder) => join(folder, "nats-server"));
  const found = [own, ...onPath].find(isProgram);
  if (!found) throw errors.NatsBinary();
  return found;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
