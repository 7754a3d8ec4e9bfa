/** A server that outlived the process which started it. Two servers on one store would destroy it, so it must go first. */
import { join } from "node:path";
import { errors } from "../errors.ts";
import { readIfThere, type ServerFiles } from "./files.ts";

const endTimeoutMs = 3_000;
const pollMs = 10;

/**
 * Ends the server that still runs on these files, if its owner is gone. Looks in /proc, so it finds nothing outside Linux.
 *
 * @throws MUSTER_ERR_BROKER_STORE_IN_USE when the owner lives.
 */
export async function endLeftover(files: ServerFiles, directory: string, ownerPid: number): Promise<void> {
  const pid = Number.parseInt((await readIfThere(files.pid)) ?? "", 10);
  if (!(await isServer(pid, files))) return;
  if (isAlive(ownerPid)) throw errors.BrokerStoreInUse({ pid, directory });
  process.kill(pid, "SIGKILL");
  const deadline = performance.now() + endTimeoutMs;
  while (await isServer(pid, files)) {
    if (performance.now() > deadline) throw errors.BrokerStoreInUse({ pid, directory });
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}

/** True when `pid` was started with our configuration; a pid that another program got since is left alone. */
async function isServer(pid: number, files: ServerFiles): Promise<boolean> {
  if (!(pid > 0)) return false;
  const commandLine = await readIfThere(join("/proc", String(pid), "cmdline"));
  return commandLine?.split("\0").includes(files.config) ?? false;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
