import { writeFileSync } from "node:fs";

/** ELF headers alone, no memory: see "Controlling which mappings are written to the core dump" in core(5). */
const headersAlone = "0x10";

/**
 * Keeps the memory of this process, and of all that it starts, out of core dumps: it holds weights, trajectories and keys. Linux; where
 * there is no such switch nothing changes. `MUSTER_CORE_DUMPS=whole` leaves dumps as the system has them.
 */
export function leaveMemoryOutOfDumps(env: Readonly<Record<string, string | undefined>>): void {
  if (env.MUSTER_CORE_DUMPS === "whole") return;
  try {
    writeFileSync("/proc/self/coredump_filter", headersAlone);
  } catch (error) {
    if (!(error instanceof Error && "syscall" in error)) throw error;
  }
}
