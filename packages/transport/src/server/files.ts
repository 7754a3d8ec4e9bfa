/** The files of a local server, all inside its directory, readable by their owner alone. */
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Where the files of a server lie. */
export interface ServerFiles {
  readonly config: string;
  readonly store: string;
  readonly log: string;
  /** Folder into which the server writes the addresses on which it listens. */
  readonly ports: string;
  /** Written by the server: its process id. */
  readonly pid: string;
  /** What this package remembers of the server. */
  readonly state: string;
}

export function filesOf(directory: string): ServerFiles {
  return {
    config: join(directory, "server.conf"),
    store: join(directory, "store"),
    log: join(directory, "server.log"),
    ports: join(directory, "ports"),
    pid: join(directory, "server.pid"),
    state: join(directory, "server.json"),
  };
}

/** Writes a file that only its owner can read, all of it or nothing. */
export async function writeSecret(path: string, text: string): Promise<void> {
  const draft = `${path}.new`;
  await rm(draft, { force: true });
  await writeFile(draft, text, { mode: 0o600 });
  await rename(draft, path);
}

/** The text of a file, or `null` when there is none (or, below /proc, no such process any more). */
export async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH") return null;
    throw error;
  }
}
