/** A nats-server of our own, for one job on one machine. Its directory holds everything: configuration, store, log, credentials. */
import { mkdirSync, statSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { folderMaker, hasCode } from "@muster/base";
import { errors } from "../errors.ts";
import { renderConfig } from "./config.ts";
import { filesOf, readIfThere, type ServerFiles, writeSecret } from "./files.ts";
import { generateKeys, type ServerCredentials, type ServerKeys, withJobs, withRoles } from "./keys.ts";
import { endLeftover } from "./leftover.ts";
import { runServer, type ServerExit, type ServerProcess } from "./server-process.ts";
import { storeTroubleIn } from "./store-trouble.ts";

const makeFolderSync = folderMaker({ mkdirSync, statSync, dirname });

/** How to start a server. */
export interface LocalServerOptions {
  /** Path of the nats-server program, 2.11 or newer. */
  readonly binary: string;
  /** Made when missing, with mode 0700. A directory used before keeps its store, its credentials and its port. */
  readonly directory: string;
  readonly job: string;
  /** More jobs that the server has users for; those of before stay, too. */
  readonly otherJobs?: readonly string[];
  /** Default: the port used before in this directory, another one when somebody has taken that meanwhile, else any free one. */
  readonly port?: number;
  /** Others know the port that was used before: the server is refused when it is taken. */
  readonly keepsPort?: boolean;
  /** Opens the HTTP monitoring endpoint on loopback, on a free port. It needs no credentials: off by default. */
  readonly monitoring?: boolean;
  /** Milliseconds between two pings of a client; a connection that misses two ends at the next. Default 2,000. */
  readonly pingMs?: number;
  /** What the groups stream will hold. */
  readonly groupsBytes?: number;
  /** Called when the server ends without having been asked to. */
  readonly onExit?: (exit: ServerExit) => void;
}

/** A server that was started here. */
export interface LocalServer {
  /** `nats://127.0.0.1:<port>`; stays the same over restarts. */
  readonly url: string;
  readonly port: number;
  /** Why it does not listen on the port that was used before, in words; `null` when it does. */
  readonly moved: string | null;
  readonly monitoringUrl: string | null;
  readonly pid: number;
  readonly credentials: ServerCredentials;
  /** Users of the other jobs, by job. */
  readonly others: Readonly<Record<string, ServerCredentials>>;
  /** Ends it: SIGTERM, after three seconds SIGKILL. Harmless when it has ended. */
  stop(): Promise<void>;
  /** Ends it at once, as a crash would; for tests of what survives that. */
  kill(): Promise<void>;
  /** Stops it when it runs, and starts it on the same port and store. */
  restart(): Promise<void>;
  /** Why its store takes nothing more until it is started again, in its own words; `null` while it does. */
  storeTrouble(): Promise<string | null>;
}

/** What a directory remembers of its server, in a file only its owner can read. */
interface SavedServer extends ServerKeys {
  /** 0 until it is known. */
  readonly port: number;
  readonly ownerPid: number;
}

/**
 * Starts a server on loopback with one account per role and a store that syncs every write. A server left behind by a process that was
 * killed is ended first; one whose owner lives is not touched.
 *
 * @throws MUSTER_ERR_BROKER_BINARY, MUSTER_ERR_PORT_IN_USE, MUSTER_ERR_BROKER_START, MUSTER_ERR_BROKER_STORE_IN_USE, MUSTER_ERR_BROKER_OF_BEFORE
 */
export async function startLocalServer(options: LocalServerOptions): Promise<LocalServer> {
  const directory = resolve(options.directory);
  const files = filesOf(directory);
  makeFolderSync(directory);
  const saved = await load(files);
  if (saved) await endLeftover(files, directory, saved.ownerPid);
  if (saved && !saved.operator) throw errors.BrokerOfBefore({ directory });
  const keys = withJobs(saved ? withRoles(saved) : generateKeys(), options.otherJobs ?? []);
  const { operator, credentials, others = {} } = keys;
  const save = (port: number): Promise<void> => {
    const state: SavedServer = { port, ownerPid: process.pid, operator, credentials, others };
    return writeSecret(files.state, JSON.stringify(state));
  };
  const start = async (port: number): Promise<Started> => {
    await save(port);
    await prepareFiles(files);
    await writeSecret(files.config, renderConfig({ ...options, port, files, keys }));
    const running = await runServer(options.binary, files);
    const started = { running, port: Number(new URL(running.ports.url).port), isEnding: false };
    void running.exited.then((exit) => {
      if (!started.isEnding) options.onExit?.(exit);
    });
    await save(started.port);
    return started;
  };
  const { port = saved?.port ?? 0, keepsPort = options.port !== undefined } = options;
  try {
    return serverOf(await start(port), { credentials, others, files, start, moved: null });
  } catch (error) {
    if (keepsPort || !hasCode(error, "MUSTER_ERR_PORT_IN_USE")) throw error;
    const moved = `port ${port} is in use${error.params.holder}`;
    return serverOf(await start(0), { credentials, others, files, start, moved });
  }
}

/** Log and addresses are of one run; the store stays. */
async function prepareFiles(files: ServerFiles): Promise<void> {
  for (const path of [files.log, files.ports, files.pid]) await rm(path, { recursive: true, force: true });
  await mkdir(files.ports, { mode: 0o700 });
}

interface Started {
  readonly running: ServerProcess;
  readonly port: number;
  /** Set before we end it ourselves, so that its end is no surprise. */
  isEnding: boolean;
}

function serverOf(
  first: Started,
  {
    credentials,
    others,
    files,
    start,
    moved,
  }: Pick<LocalServer, "credentials" | "others" | "moved"> & {
    readonly files: ServerFiles;
    readonly start: (port: number) => Promise<Started>;
  },
): LocalServer {
  let current = first;
  const end = (how: "stop" | "kill"): Promise<void> => {
    current.isEnding = true;
    return current.running[how]();
  };
  return {
    credentials,
    others,
    moved,
    port: first.port,
    url: first.running.ports.url,
    get monitoringUrl() {
      return current.running.ports.monitoringUrl;
    },
    get pid() {
      return current.running.pid;
    },
    stop: () => end("stop"),
    kill: () => end("kill"),
    storeTrouble: () => storeTroubleIn(files.log),
    async restart() {
      await end("stop");
      current = await start(first.port);
    },
  };
}

async function load(files: ServerFiles): Promise<SavedServer | null> {
  const text = await readIfThere(files.state);
  return text === null ? null : (JSON.parse(text) as SavedServer);
}
