/**
 * Folders whose name says which process has them, so that one that was killed leaves nothing for ever. Linux only: elsewhere nothing is removed, because
 * nobody knows whose it is.
 */
import { createHash } from "node:crypto";
import { lstat, mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { join } from "node:path";
import { startOf } from "../programs/proc.ts";

const name = /^muster-served-([0-9a-f]{16})-(\d+)-(\d+)-/;

/** Makes a folder of this process in `parent`, and removes those of this user's processes that have ended. */
export async function makeOwnedFolder(parent: string): Promise<string> {
  const place = await placeOf();
  const start = startOf(process.pid);
  if (place === null || start === null) return await mkdtemp(join(parent, "muster-served-"));
  await removeLeft(parent, place);
  return await mkdtemp(join(parent, `muster-served-${place}-${process.pid}-${start}-`));
}

async function removeLeft(parent: string, here: string): Promise<void> {
  for (const entry of await readdir(parent)) {
    const [, place, pid, start] = name.exec(entry) ?? [];
    if (place !== here || startOf(Number(pid)) === start) continue;
    const path = join(parent, entry);
    const found = await lstat(path).catch(() => null);
    if (found?.uid !== process.getuid?.()) continue;
    // Another sampler that starts now may remove the same: who comes later finds less, and what stays is for the next start.
    await rm(path, { recursive: true, force: true }).catch(() => {});
  }
}

/** Where process numbers mean the same: this boot of this host, in this container. A folder may be shared with others. */
async function placeOf(): Promise<string | null> {
  try {
    const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8");
    return createHash("sha256")
      .update(`${boot} ${await readlink("/proc/self/ns/pid")}`)
      .digest("hex")
      .slice(0, 16);
  } catch {
    return null; // not Linux
  }
}
