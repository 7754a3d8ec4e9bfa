/** Starts real processes for tests that kill; see child.mjs. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const packageRoot = fileURLToPath(new URL("../..", import.meta.url));
const script = join(packageRoot, "test/support/child.mjs");

/** Builds the package when a source is newer than the build: the children run from `dist`. */
export function buildPackage(): void {
  const built = join(packageRoot, "dist/.tsbuildinfo");
  const sources = join(packageRoot, "src");
  const builtAtMs = existsSync(built) ? statSync(built).mtimeMs : 0;
  if (readdirSync(sources).every((name) => statSync(join(sources, name)).mtimeMs < builtAtMs)) return;
  const compiler = join(packageRoot, "../../node_modules/typescript/bin/tsc");
  execFileSync(process.execPath, [compiler, "-b", packageRoot], { stdio: "inherit" });
}

/** A child process that answers one call at a time. */
export class Child {
  readonly process: ChildProcess;
  readonly ended: Promise<{ code: number | null; signal: string | null }>;

  /** `wrapper` is a command line that runs the rest, e.g. `ip netns exec name`. */
  constructor(wrapper: readonly string[] = []) {
    const [command = process.execPath, ...rest] = [...wrapper, process.execPath, script];
    this.process = spawn(command, rest, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    this.ended = new Promise((resolve) => this.process.once("exit", (code, signal) => resolve({ code, signal })));
  }

  /** Calls a command of the child. @returns What it answers. @throws Error with the code it failed with. */
  call<T>(call: string, options: object = {}): Promise<T> {
    return new Promise((resolve, reject) => {
      const onExit = (): void => reject(new Error(`the child ended during ${call}`));
      this.process.once("exit", onExit);
      this.process.once("message", (answer: { done: T } | { failed: string }) => {
        this.process.off("exit", onExit);
        if ("failed" in answer) reject(new Error(answer.failed));
        else resolve(answer.done);
      });
      this.process.send({ call, options });
    });
  }

  /** Tells the child something that it does not answer. */
  tell(call: string, options: object = {}): void {
    this.process.send({ call, options });
  }

  kill(signal: NodeJS.Signals = "SIGKILL"): void {
    this.process.kill(signal);
  }
}
