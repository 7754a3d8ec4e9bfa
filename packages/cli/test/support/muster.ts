/** Runs the built command as a user does. */
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Root of the repository. */
export const root = join(dirname(fileURLToPath(import.meta.url)), "../../../..");

const program = join(root, "packages/cli/bin/muster.mjs");

/** What a command left. */
export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Builds the command unless it is built. */
export function buildOnce(): void {
  if (existsSync(join(root, "packages/cli/dist/index.js"))) return;
  execFileSync(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "-b", "packages/cli"], { cwd: root });
}

/** Runs a command to its end, from the root of the repository. */
export function muster(args: readonly string[], env: NodeJS.ProcessEnv = {}): Outcome {
  const options = { cwd: root, encoding: "utf8", env: { ...process.env, ...env }, timeout: 30_000 } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], options);
  return { code: status, stdout, stderr };
}

/** A command that goes on while the test does something else. */
export interface RunningMuster {
  readonly ended: Promise<Outcome>;
  stdout(): string;
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
}

/** The address that a server says in its first line, as JSON. */
export function addressOf(server: RunningMuster): Promise<string> {
  return new Promise((resolve, reject) => {
    void server.ended.then(({ stderr }) => reject(new Error(stderr)));
    const look = (): void => {
      const [line] = server.stdout().split("\n");
      if (line) resolve(JSON.parse(line).url);
      else setTimeout(look, 20);
    };
    look();
  });
}

/** Starts a command. */
export function startMuster(args: readonly string[]): RunningMuster {
  const child = spawn(process.execPath, [program, ...args], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const ended = new Promise<Outcome>((resolve) => {
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
  return { ended, stdout: () => stdout, stderr: () => stderr, kill: (signal) => void child.kill(signal) };
}
