/** A `muster run` and what is heard of it. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { type JobConfig, jobConfigSchema } from "@muster/protocol";
import { errors } from "../errors.ts";
import { brokerPortOf, followJob, type HeardEvent, type JobSubscription } from "./follow.ts";
import { type MusterProgram, type RunningCommand, startMuster } from "./job-process.ts";

/** A run that is followed. */
export interface WatchedRun {
  readonly job: string;
  readonly directory: string;
  readonly command: RunningCommand;
  readonly config: JobConfig;
  readonly subscription: JobSubscription;
}

/** Which run to start. */
export interface WatchedRunOptions {
  readonly program: MusterProgram;
  readonly runs: string;
  readonly job: string;
  /** Arguments of `muster run` besides the place and the name. */
  readonly args: readonly string[];
  readonly onEvent: (event: HeardEvent) => void;
  readonly signal: AbortSignal;
}

const startMs = 60_000;
const pollMs = 50;

/** Starts a run and follows its events from the first. @throws MUSTER_ERR_CHAOS_RUN when it ends before it can be followed. */
export async function startWatchedRun(options: WatchedRunOptions): Promise<WatchedRun> {
  const { program, runs, job, args, onEvent, signal } = options;
  const directory = join(runs, job);
  const command = startMuster(program, [
    "run",
    ...args,
    "--runs",
    runs,
    "--job",
    job,
    "--json",
    "--quiet",
    "--supervised",
  ]);
  try {
    const isThere = (name: string): boolean => statSync(join(directory, name), { throwIfNoEntry: false }) !== undefined;
    await until(() => isThere("connection.json") && isThere("job.json") && brokerPortOf(directory) !== null, {
      what: `the broker of ${job}`,
      timeoutMs: startMs,
      signal,
      command,
    });
    const config = jobConfigSchema.parse(JSON.parse(readFileSync(join(directory, "job.json"), "utf8")));
    return { job, directory, command, config, subscription: await followJob(directory, job, onEvent) };
  } catch (error) {
    command.kill("SIGKILL");
    throw error;
  }
}

/** What to wait for and how long. */
export interface UntilOptions {
  readonly what: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** The command without which waiting makes no sense. */
  readonly command?: RunningCommand;
}

/** Waits until something holds. @throws MUSTER_ERR_CHAOS_RUN at the deadline or when the command ends, and the reason of `signal`. */
export async function until(holds: () => boolean, options: UntilOptions): Promise<void> {
  const { what, timeoutMs, signal, command } = options;
  const deadline = performance.now() + timeoutMs;
  while (!holds()) {
    signal.throwIfAborted();
    const isLate = performance.now() > deadline;
    if (isLate || command?.isOver()) {
      const reason = isLate ? `it took longer than ${timeoutMs} ms` : "the run ended first";
      throw errors.ChaosRun({ what, reason, lines: command?.lines().slice(-8).join(" | ") ?? "" });
    }
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}

/** Asks the job to stop, and waits until its run has ended. @returns The exit code. */
export async function stopRun(
  run: WatchedRun,
  options: { readonly program: MusterProgram; readonly runs: string; readonly timeoutMs: number },
): Promise<number | null> {
  const { program, runs, timeoutMs } = options;
  const timer = setTimeout(() => run.command.kill("SIGKILL"), timeoutMs);
  const ask = startMuster(program, ["stop", "--job", run.job, "--runs", runs, "--timeout", `${timeoutMs}ms`]);
  await ask.exited;
  const { code } = await run.command.exited;
  clearTimeout(timer);
  return code;
}
