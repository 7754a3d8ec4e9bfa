/** Whether a process ended because memory was short: what the kernel counts, and what Node says when its heap is full. Linux. */
import { closeSync, openSync, readFileSync, readSync } from "node:fs";

/** Processes of this host's control group that the kernel ended for want of memory; 0 where that is not told. */
export function oomKillsOf(): number {
  for (const path of ["/sys/fs/cgroup/memory.events", "/proc/vmstat"]) {
    const count = /^oom_kill (\d+)$/m.exec(textOf(path))?.[1];
    if (count !== undefined) return Number(count);
  }
  return 0;
}

const abortCode = 134;
/** Node says it first, and a long stack of its own after it. */
const wordsMax = 64 * 1024;

/** True for a process that ended itself because its heap was full. Node says so on its standard error, and in no other way. */
export function isHeapFull(
  { code, signal }: { readonly code: number | null; readonly signal: NodeJS.Signals | null },
  log: { readonly path: string; readonly from: number },
): boolean {
  if (signal !== "SIGABRT" && code !== abortCode) return false;
  return wordsOf(log).includes("JavaScript heap out of memory");
}

function wordsOf({ path, from }: { readonly path: string; readonly from: number }): string {
  const buffer = Buffer.alloc(wordsMax);
  const file = openSync(path, "r");
  try {
    return buffer.toString("utf8", 0, readSync(file, buffer, 0, wordsMax, from));
  } finally {
    closeSync(file);
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "EACCES") return "";
    throw error;
  }
}
