/** Processes that take part in a measurement. They do what they are told over IPC, one call at a time, and answer. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { errors } from "../errors.ts";

/** How a call ended in the member. Times in seconds. */
export interface Answer {
  /** When the member heard of it, by the same clock as `endedAt`. */
  readonly startedAt: number;
  /** When it ended, by the clock that all processes of a host share (`process.hrtime`). */
  readonly endedAt: number;
  /** CPU time that the member used for it. */
  readonly cpuSeconds: number;
  readonly value: unknown;
}

/** Seconds by the clock that all processes of a host share. */
export function sharedClock(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}

/** Has the memory of a process in huge pages where the kernel has them, as large buffers of engines are. Peers get it too. */
export const hugePages = { GLIBC_TUNABLES: "glibc.malloc.hugetlb=1" } as const;

/** One process. */
export class Member {
  readonly process: ChildProcess;

  /**
   * @param file Module of this folder that the process runs, without extension, e.g. `weights/member`.
   * @param wrapper Command line that runs what follows it, e.g. in a network namespace.
   */
  constructor(file: string, wrapper: readonly string[] = []) {
    const [command = "", ...args] = [...wrapper, process.execPath, compiled(file)];
    this.process = spawn(command, args, {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
      env: { ...process.env, ...hugePages },
    });
  }

  /** Has the member do something. @throws MUSTER_ERR_BENCH_MEMBER when it fails or ends. */
  call(name: string, options: object): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const failed = (reason: string): void => reject(errors.BenchMember({ call: name, reason }));
      const ended = (): void => failed(`the process ${endText(this.process.exitCode, this.process.signalCode)}`);
      if (this.process.exitCode !== null || this.process.signalCode !== null) return ended();
      this.process.once("exit", ended);
      this.process.once("message", (answer: Answer | { readonly failed: string }) => {
        this.process.off("exit", ended);
        if ("failed" in answer) failed(answer.failed);
        else resolve(answer);
      });
      this.process.send({ name, options });
    });
  }
}

/** How a process ended, e.g. `ended with code 1`. */
export function endText(code: number | null, signal: NodeJS.Signals | null): string {
  if (signal === "SIGKILL") return "was killed by SIGKILL, as the kernel does when memory runs out";
  return signal ? `was killed by ${signal}` : `ended with code ${code}`;
}

/** Ends the processes, also those that are stopped, and waits for it. */
export async function endMembers(members: readonly Member[]): Promise<void> {
  await Promise.all(
    members.map(({ process: child }) => {
      if (child.exitCode !== null || child.signalCode !== null) return null;
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      return ended;
    }),
  );
}

/** Answers calls until the parent goes. To be called once by a module that is run as a member. */
export function serveCalls(calls: Readonly<Record<string, (options: never) => unknown>>): void {
  process.on("message", async ({ name, options }: { readonly name: string; readonly options: never }) => {
    const before = process.cpuUsage();
    const startedAt = sharedClock();
    try {
      const value = await calls[name]?.(options);
      const { user, system } = process.cpuUsage(before);
      process.send?.({ startedAt, endedAt: sharedClock(), cpuSeconds: (user + system) / 1e6, value });
    } catch (error) {
      process.send?.({ failed: String(error) });
    }
  });
  process.on("disconnect", () => process.exit(0));
  // Ctrl-C reaches the whole group of processes; the parent ends its members.
  process.on("SIGINT", () => {});
}

/** The compiled module: beside this file when compiled, in `dist` when this file runs from source. */
function compiled(file: string): string {
  const fromSource = import.meta.url.endsWith(".ts");
  const path = fileURLToPath(new URL(`${fromSource ? "../../dist/bench" : "."}/${file}.js`, import.meta.url));
  if (!existsSync(path)) throw errors.BenchMember({ call: file, reason: `${path} is missing; run npm run build` });
  return path;
}
