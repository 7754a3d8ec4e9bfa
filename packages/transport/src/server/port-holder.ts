/** Who listens on a port of this machine, as far as Linux shows it to this user. */
import { readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { readIfThere } from "./files.ts";

/** State of a socket that listens, in /proc/net/tcp. */
const listening = "0A";

/** The process that listens on the port, as ` by process 12 (nginx)`; empty where that can not be seen. Never fails. */
export async function holderOf(port: number): Promise<string> {
  try {
    const inodes = await inodesOf(port);
    const pid = inodes.size > 0 ? await processWith(inodes) : null;
    if (pid === null) return "";
    const name = (await readIfThere(join("/proc", pid, "comm")))?.trim();
    return ` by process ${pid}${name ? ` (${name})` : ""}`;
  } catch {
    // It is only a hint: without /proc there is none.
    return "";
  }
}

/** Inodes of the sockets that listen on the port. */
async function inodesOf(port: number): Promise<ReadonlySet<string>> {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const tables = await Promise.all(["/proc/net/tcp", "/proc/net/tcp6"].map(readIfThere));
  const rows = tables.flatMap((text) => (text ?? "").split("\n").map((line) => line.trim().split(/\s+/)));
  const held = rows.filter(([, local = "", , state]) => local.endsWith(suffix) && state === listening);
  return new Set(held.map((row) => `socket:[${row[9]}]`));
}

async function processWith(sockets: ReadonlySet<string>): Promise<string | null> {
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const folder = join("/proc", pid, "fd");
    // Processes of other users show nothing, and some end meanwhile.
    const fds = await readdir(folder).catch(() => []);
    for (const fd of fds) if (sockets.has(await readlink(join(folder, fd)).catch(() => ""))) return pid;
  }
  return null;
}
