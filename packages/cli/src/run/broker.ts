/** The broker of a run: its own nats-server on loopback, or one that the operator runs. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Clock, type Logger, withDeadline } from "@muster/base";
import { type Credentials, connectNats, prepareJob, startLocalServer, type Transport } from "@muster/transport";
import { readCredentials } from "../composition/connection.ts";
import { errors } from "../errors.ts";
import { ServerKeeper } from "./server-keeper.ts";

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
  /** Dead time-out of the job: the broker notices who does not answer before that. */
  readonly deadAfterMs: number;
  /** Port of an own server; `null` for the one of before, or any free one. */
  readonly port: number | null;
  /** Somebody else, e.g. a proxy, leads the actors to that port: it must stay the one of before. */
  readonly isPortKnown: boolean;
  /** What the groups stream holds. */
  readonly groupsBytes: number;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The server listens on another port than before, and why. */
  readonly onMoved: (detail: string) => void;
  /** The server ended; it is started again on the same port and store. */
  readonly onRestart: (detail: string) => void;
  /** The server can not be kept running. */
  readonly onGivenUp: (detail: string) => void;
}): Promise<Broker> {
  const { job, directory, env, port } = options;
  if (env.MUSTER_NATS_URL && port !== null)
    throw errors.OptionInvalid({
      option: "port",
      value: port,
      reason: "is not for a broker of your own; unset MUSTER_NATS_URL or leave it out",
    });
  const broker = env.MUSTER_NATS_URL ? externalBroker(env.MUSTER_NATS_URL, env) : await localBroker(options);
  const credentials = broker.credentials.controller;
  if (!credentials) throw errors.CredentialsMissing({ role: "controller", path: directory });
  try {
    const controller = { url: broker.url, job, credentials, connectTimeoutMs: 10_000 };
    await prepareJob({ ...controller, bytesMax: { groups: options.groupsBytes } });
    // The other roles get their consumers from whoever connects like this: here also while no controller lives.
    const desk = await connectNats({ ...controller, name: `controller.run.${process.pid}`, logger: options.logger });
    const stop = async (): Promise<void> => {
      const isAnswering = await answers(desk, options.clock);
      await desk.close();
      await broker.end(isAnswering);
    };
    return { url: broker.url, credentials: broker.credentials, stop };
  } catch (error) {
    await broker.end(true);
    throw error;
  }
}

/** A server that answers may end in order; from one that is frozen nothing can be expected, and it has all on disk that it acknowledged. */
async function answers(desk: Transport, clock: Clock): Promise<boolean> {
  const patience = { what: "asking the broker", timeoutMs: answerMs, clock };
  return await withDeadline(() => desk.flush(), patience).then(
    () => true,
    () => false,
  );
}

const answerMs = 500;

/** A broker, and how it is left. */
interface Opened extends Pick<Broker, "url" | "credentials"> {
  end(isAnswering: boolean): Promise<void>;
}

async function localBroker(options: Parameters<typeof openBroker>[0]): Promise<Opened> {
  const directory = join(options.directory, "nats");
  const keeper = new ServerKeeper({ ...options, directory });
  const server = await startLocalServer({
    binary: findNatsServer(options.env),
    directory,
    job: options.job,
    groupsBytes: options.groupsBytes,
    ...(options.port === null ? {} : { port: options.port }),
    keepsPort: options.port !== null || options.isPortKnown,
    pingMs: Math.min(pingMsMax, Math.floor(options.deadAfterMs / pingsPerDeath)),
    onExit: ({ code, signal }) => void keeper.ended(`nats-server ended with ${signal ?? `code ${code}`}`),
  });
  keeper.keep(server);
  if (server.moved !== null) options.onMoved(`${server.moved}; the broker listens on ${server.port} now`);
  return {
    url: server.url,
    credentials: server.credentials,
    async end(isAnswering) {
      await keeper.stop();
      await (isAnswering ? server.stop() : server.kill());
    },
  };
}

const pingMsMax = 2_000;
/** The connection of a frozen client ends after three of them, so that its end is known before the time-out. */
const pingsPerDeath = 5;

function externalBroker(url: string, env: Readonly<Record<string, string | undefined>>): Opened {
  const path = env.MUSTER_NATS_CREDENTIALS;
  if (!path) throw errors.ExternalCredentials({ variable: "MUSTER_NATS_CREDENTIALS" });
  return { url, credentials: readCredentials(path), end: async () => {} };
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
