/** Real processes under test: their output by lines, their end, and the proof that nothing of them is left. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { waitFor } from "./wait-for.ts";

/** How to start a process. */
export interface ActorProcessOptions {
  readonly command: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
  /** Added to the environment of the test. */
  readonly env?: Readonly<Record<string, string>>;
}

/** How a process ended. */
export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A process under test, in a process group of its own. */
export interface ActorProcess {
  readonly pid: number;
  /** Lines of stdout and stderr so far, the oldest dropped beyond ten thousand. */
  readonly lines: readonly string[];
  readonly exited: Promise<ProcessExit>;
  /** Waits for a line that contains `text` or matches; looks at earlier lines too. */
  waitForLine(pattern: string | RegExp, timeoutMs?: number): Promise<string>;
  /** Sends a signal to this process alone. */
  signal(signal: NodeJS.Signals): void;
  /** SIGKILLs the whole group and waits for the end. Harmless when it has ended. */
  kill(): Promise<ProcessExit>;
  /** True while any process of the group lives, children included. */
  hasLeftover(): boolean;
}

const linesMax = 10_000;
const lineTimeoutMs = 10_000;
const tailLines = 30;

/** Starts a process. @throws Error when the command can not be started. */
export async function spawnActor(options: ActorProcessOptions): Promise<ActorProcess> {
  const child = spawn(options.command, options.args ?? [], {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    env: { ...process.env, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const lines = collectLines(child);
  const exited = new Promise<ProcessExit>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  await new Promise<void>((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", reject);
  });
  const pid = child.pid as number;
  return {
    pid,
    lines,
    exited,
    waitForLine: (pattern, timeoutMs = lineTimeoutMs) =>
      waitFor(() => lines.find((line) => (typeof pattern === "string" ? line.includes(pattern) : pattern.test(line))), {
        what: `a line with ${pattern} from ${options.command}`,
        timeoutMs,
        detail: () => lines.slice(-tailLines),
      }),
    signal: (signal) => void child.kill(signal),
    async kill() {
      signalGroup(pid, "SIGKILL");
      return await exited;
    },
    hasLeftover: () => signalGroup(pid, 0),
  };
}

function collectLines(child: ChildProcess): readonly string[] {
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (!stream) continue;
    createInterface({ input: stream }).on("line", (line) => {
      lines.push(line);
      if (lines.length > linesMax) lines.shift();
    });
  }
  return lines;
}

/** @returns False when no process of the group is left. */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}
