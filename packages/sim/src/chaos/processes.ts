/** The processes of a job as the process table shows them: found by their command lines, whoever started them. Reads /proc, hence Linux. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A process of a job. */
export interface JobProcess {
  readonly pid: number;
  /** `policy`, `rollout`, `checkpoint`, `controller`, `broker`, or another role. */
  readonly role: string;
  readonly id: string;
}

/** Lists the processes of the job in `directory` (`<runs>/<job>`), in order of id, without `muster run` itself. */
export function processesOf(runs: string, job: string): readonly JobProcess[] {
  const configPath = join(runs, job, "nats", "server.conf");
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => processOf(Number(name), argumentsOf(name), { runs, job, configPath }) ?? [])
    .sort((a, b) => a.id.localeCompare(b.id, "en", { numeric: true }) || a.pid - b.pid);
}

function processOf(
  pid: number,
  args: readonly string[],
  where: { readonly runs: string; readonly job: string; readonly configPath: string },
): JobProcess | null {
  if (args.includes(where.configPath)) return args[0] === "sh" ? null : { pid, role: "broker", id: "nats-server" };
  const flagOf = (flag: string): string | undefined => args[args.indexOf(flag) + 1];
  if (!args.includes("--job") || flagOf("--job") !== where.job || flagOf("--runs") !== where.runs) return null;
  const role = args[args.findIndex((arg) => arg.endsWith("muster.mjs")) + 1] ?? "";
  if (role === "run" || role === "") return null;
  return { pid, role, id: args.includes("--id") ? (flagOf("--id") ?? role) : role };
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
