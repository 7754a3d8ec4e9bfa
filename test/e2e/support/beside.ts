/** Commands of a second terminal: pasted one after another while a job runs, the endless ones until Ctrl-C. */
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { type JobRun, startJobRun } from "@muster/testkit";

/** A job that runs until it is stopped, for commands that need one. */
export async function startJobBeside(home: string, job: string, ...args: readonly string[]): Promise<JobRun> {
  const small = ["batch.groups_per_step=16", "evaluation.every_steps=100000"].flatMap((set) => ["--set", set]);
  const file = join(home, "jobs/dates.toml");
  const run = await startJobRun({
    runs: join(home, "runs"),
    job,
    file,
    args: ["--steps", "100000", ...small, ...args],
  });
  await run.waitForEvent("step.committed", () => true, 60_000);
  return run;
}

/** Ends such a job unless a command has ended it. */
export async function endJobBeside(run: JobRun): Promise<void> {
  const over = await Promise.race([run.process.exited.then(() => true), Promise.resolve(false)]);
  if (!over) process.kill(-run.process.pid, "SIGINT");
  await run.process.exited;
}

/** What goes on until Ctrl-C, by how it is written. */
const endless = /^(muster (rollout|policy|watch)\b|muster status .*--watch|python3 \S+ \S+ watch|node \S+reader\.mjs )/;

/** The commands of a block, `<name>` replaced by the job's. Those that need another value are left out, and so is Python where there is none. Pure but for that. */
export function commandsBeside(script: string, job: string): readonly string[] {
  const lines = script.includes("<<") ? [script] : script.trim().split("\n");
  const hasPython = spawnSync("python3", ["--version"]).status === 0;
  return lines
    .map((line) => line.replaceAll("<name>", job))
    .filter((line) => !/<[a-z -]+>/.test(line.replaceAll(/#.*$/gm, "")) && (hasPython || !line.startsWith("python3")));
}

/** Runs one command in a shell of its own. @returns How it ended, and what it printed; `null` is a command that had to be killed after a minute. */
export function runBeside(
  command: string,
  { variables, folder, env }: { readonly variables: string; readonly folder: string; readonly env: NodeJS.ProcessEnv },
): Promise<{ readonly code: number | null; readonly said: string }> {
  const child = spawn("bash", ["-c", `. "${variables}"; exec 2>&1; set -e\n${command}`], {
    cwd: folder,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const group = (signal: NodeJS.Signals) => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, signal);
  };
  const deadline = setTimeout(() => group("SIGKILL"), 60_000);
  let said = "";
  let interrupted = false;
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.stdout.on("data", (chunk: Buffer) => {
      said += chunk.toString();
      if (interrupted || !endless.test(command)) return;
      interrupted = true;
      group("SIGINT");
    });
    child.once("close", (code, signal) => {
      clearTimeout(deadline);
      // A program that Ctrl-C ends may say so by its code, by the signal, or not at all.
      const isCtrlC = interrupted && (code === 130 || signal === "SIGINT");
      resolve({ code: isCtrlC ? 0 : code, said });
    });
  });
}
