/** `muster` commands as child processes: a whole run, and short questions to it. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** How `muster` is started, and with what environment. */
export interface MusterProgram {
  /** Program and first arguments, e.g. node and the path of the command. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A running command. */
export interface RunningCommand {
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  readonly isOver: () => boolean;
  /** Its last lines, of both outputs. */
  lines(): readonly string[];
  kill(signal: NodeJS.Signals): void;
}

const linesMax = 40;

/** Starts a command. Its standard input is open for as long as this process lives: with `--supervised` it ends when that closes. */
export function startMuster(program: MusterProgram, args: readonly string[]): RunningCommand {
  const [command = process.execPath, ...first] = program.command;
  const child: ChildProcess = spawn(command, [...first, ...args], {
    env: { ...program.env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  // A command that is gone closes the pipe; its exit says all there is to say.
  child.stdin?.on("error", () => {});
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (!stream) continue;
    createInterface({ input: stream }).on("line", (line) => {
      lines.push(line);
      if (lines.length > linesMax) lines.shift();
    });
  }
  let isOver = false;
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      isOver = true;
      resolve({ code, signal });
    });
  });
  return { exited, isOver: () => isOver, lines: () => lines, kill: (signal) => void child.kill(signal) };
}
