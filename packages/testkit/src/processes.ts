/** Looks at the processes of this host, to find those of a test and to see that none is left. Reads /proc, hence Linux. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A process and its command line. */
export interface ProcessInfo {
  readonly pid: number;
  readonly args: readonly string[];
}

/** Living processes with an argument that contains `text`, e.g. the folder of a test. */
export function processesNaming(text: string): readonly ProcessInfo[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), args: argumentsOf(name) }))
    .filter(({ pid, args }) => pid !== process.pid && args.some((arg) => arg.includes(text)));
}

/** An actor of a job. */
export interface JobActor {
  readonly runs: string;
  readonly job: string;
  readonly id: string;
}

/** True for the arguments of the process of an actor. A replica that a node runs names its node, too: it is told by `--id` alone. Pure. */
export function isProcessOf(args: readonly string[], { runs, job, id }: JobActor): boolean {
  if (!args.includes(runs) || !args.includes(job) || args.includes("run")) return false;
  return args.includes("--id") ? args[args.indexOf("--id") + 1] === id : args[2] === id;
}

/** Empty for a process that has ended since it was listed, and for one that only waits to be reaped. */
function argumentsOf(pid: string): readonly string[] {
  try {
    return readFileSync(join("/proc", pid, "cmdline"), "utf8").split("\0");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ESRCH") return [];
    throw error;
  }
}
