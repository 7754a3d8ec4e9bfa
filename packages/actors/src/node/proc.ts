/** What Linux tells about the processes of this host: when one started, its group, and what it was given. */
import { readdirSync, readFileSync } from "node:fs";

/** When a process started, in clock ticks since the host's boot; `null` when there is none, or when it only waits to be reaped. */
export function startTicksOf(pid: number): number | null {
  return readStat(pid)?.startTicks ?? null;
}

/** The processes of a group that still run. Those that only wait to be reaped are left out. */
export function membersOf(group: number): readonly number[] {
  return allProcesses().filter((pid) => readStat(pid)?.group === group);
}

/** The processes of which this is true and that are not in this group: they left it, with a session of their own for one. */
export function escapedFrom(group: number, isMeant: (pid: number) => boolean): readonly number[] {
  return allProcesses().filter((pid) => isMeant(pid) && (readStat(pid)?.group ?? group) !== group);
}

function allProcesses(): readonly number[] {
  return readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
}

/**
 * Whether a process was given this variable with this value.
 * @returns False also when it may not be told: the process is gone or another user's.
 */
export function wasGiven(pid: number, name: string, value: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").includes(`${name}=${value}`);
  } catch (error) {
    if (isMissing(error) || isRefused(error)) return false;
    throw error;
  }
}

/** Whether an error of the file system says that the file, or the process that it tells of, is not there. */
export function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "ENOENT" || code === "ESRCH";
}

function isRefused(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === "EACCES" || code === "EPERM";
}

function readStat(pid: number): { readonly group: number; readonly startTicks: number } | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in parentheses may contain anything; what follows the last one is a letter and numbers.
    const [state, , group, ...rest] = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return state === "Z" || state === "X" ? null : { group: Number(group), startTicks: Number(rest[16]) };
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}
