/** A control group of its own with a limit of memory, so that the kernel ends a process for want of memory. Linux, root. */
import { accessSync, constants, existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** A group that processes can be put into. */
export interface MemoryLimit {
  /** Moves a process into the group. What it holds already does not count; what it asks for from now on does. */
  hold(pid: number): void;
  /** Removes the group; its processes must have ended. */
  close(): void;
}

const roots = [
  { root: "/sys/fs/cgroup", limit: "memory.max", isVersion2: true },
  { root: "/sys/fs/cgroup/memory", limit: "memory.limit_in_bytes", isVersion2: false },
] as const;

/** Why no process can be given a limit here; `null` when one can. */
export function memoryLimitMissing(): string | null {
  return rootHere() ? null : "a limit of memory needs root, and control groups with the memory controller";
}

/** Makes a group of at most `bytes`. @throws Where {@link memoryLimitMissing} says why. */
export function openMemoryLimit(name: string, bytes: number): MemoryLimit {
  const found = rootHere();
  if (!found) throw new Error(memoryLimitMissing() ?? "");
  const group = join(found.root, name);
  mkdirSync(group);
  writeFileSync(join(group, found.limit), String(bytes));
  return {
    hold: (pid) => writeFileSync(join(group, "cgroup.procs"), String(pid)),
    close: () => rmdirSync(group),
  };
}

function rootHere(): (typeof roots)[number] | undefined {
  return roots.find(({ root, isVersion2 }) => {
    if (process.getuid?.() !== 0 || !existsSync(join(root, "cgroup.procs"))) return false;
    try {
      accessSync(root, constants.W_OK);
      if (isVersion2) return readFileSync(join(root, "cgroup.subtree_control"), "utf8").includes("memory");
      return existsSync(join(root, "memory.limit_in_bytes"));
    } catch {
      return false; // a file system that nobody may write to
    }
  });
}
