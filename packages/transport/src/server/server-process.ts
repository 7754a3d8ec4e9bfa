/** One run of the nats-server program: spawned, waited for until it listens, ended. */
import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";
import { readIfThere, type ServerFiles } from "./files.ts";
import { holderOf } from "./port-holder.ts";
import { startGuard } from "./server-guard.ts";

const startTimeoutMs = 10_000;
const stopTimeoutMs = 3_000;
const pollMs = 10;
const logTailLength = 4_096;

/** How a server ended. */
export interface ServerExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The last lines of its log. */
  readonly logTail: string;
}

/** The addresses on which a server listens, as it writes them down itself. */
export interface ServerPorts {
  readonly url: string;
  readonly monitoringUrl: string | null;
}

/** A running server. */
export interface ServerProcess {
  readonly pid: number;
  readonly ports: ServerPorts;
  /** Resolves when the process has ended, for whatever reason. */
  readonly exited: Promise<ServerExit>;
  /** Ends it: SIGTERM, after three seconds SIGKILL. */
  stop(): Promise<void>;
  /** Ends it at once, as a crash would. */
  kill(): Promise<void>;
}

/**
 * Runs `binary -c <config>` and waits until it listens.
 *
 * @throws MUSTER_ERR_BROKER_BINARY, MUSTER_ERR_PORT_IN_USE, MUSTER_ERR_BROKER_START with the end of the log
 */
export async function runServer(binary: string, files: ServerFiles): Promise<ServerProcess> {
  await access(binary, constants.X_OK).catch((error: unknown) => {
    throw errors.BrokerBinary({ binary, reason: messageOf(error) }, error);
  });
  const guard = startGuard(files);
  // A session of its own: Ctrl-C in a terminal goes to every process of the group, and the broker must outlive those who use it.
  const child = spawn(binary, ["-c", files.config], { stdio: "ignore", detached: true });
  const exited = exitOf(child, files);
  const isOver = exited.then(() => guard.dismiss());
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await isOver;
  };
  try {
    const pid = await pidOf(child, binary);
    guard.watch(pid);
    const ports = await portsOf(child, join(files.ports, `nats-server_${pid}.ports`), files);
    return { pid, ports, exited, kill, stop: () => stop(child, isOver) };
  } catch (error) {
    await kill();
    throw error;
  }
}

function pidOf(child: ChildProcess, binary: string): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", (error) => reject(errors.BrokerBinary({ binary, reason: error.message }, error)));
    child.once("spawn", () => resolve(child.pid ?? 0));
  });
}

async function exitOf(child: ChildProcess, files: ServerFiles): Promise<ServerExit> {
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
    child.once("exit", (...end) => resolve(end));
    child.once("error", () => resolve([null, null]));
  });
  return { code, signal, logTail: await tailOf(files.log) };
}

/** The server writes this file when it listens; it holds the addresses and is removed at a clean end. */
async function portsOf(child: ChildProcess, path: string, files: ServerFiles): Promise<ServerPorts> {
  const deadline = performance.now() + startTimeoutMs;
  while (performance.now() < deadline) {
    if (child.exitCode !== null || child.signalCode !== null) throw await startFailure(await tailOf(files.log));
    const ports = parsePorts((await readIfThere(path)) ?? "");
    if (ports) return ports;
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
  throw errors.BrokerStart({ timeoutMs: startTimeoutMs, reason: await tailOf(files.log) });
}

/** @returns `null` while the file is not there or half written. */
export function parsePorts(text: string): ServerPorts | null {
  if (!text.trimEnd().endsWith("}")) return null;
  const { nats, monitoring } = JSON.parse(text) as { nats?: string[]; monitoring?: string[] };
  const url = nats?.[0];
  return url === undefined ? null : { url, monitoringUrl: monitoring?.[0] ?? null };
}

async function startFailure(log: string): Promise<Error> {
  const port = Number(/listen tcp [^\s]*:(\d+): bind: address already in use/.exec(log)?.[1]);
  if (port > 0) return errors.PortInUse({ port, holder: await holderOf(port) });
  return errors.BrokerStart({ timeoutMs: startTimeoutMs, reason: log });
}

async function stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), stopTimeoutMs);
  await ended;
  clearTimeout(timer);
}

async function tailOf(path: string): Promise<string> {
  return (await readIfThere(path))?.slice(-logTailLength).trim() || "it left no log";
}
