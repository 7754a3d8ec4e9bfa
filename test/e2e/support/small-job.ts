/** Small jobs for tests: seconds instead of minutes, and what training in one process makes of the same job. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { checkRun } from "@muster/check";
import { openRunFolder } from "@muster/check/files";
import { digestOf } from "@muster/collectives/internal";
import { taskOf } from "@muster/data";
import { trainLocally } from "@muster/engine/embedded";
import { rewardOf } from "@muster/engine/internal";
import { type JobConfig, jobConfigSchema } from "@muster/protocol";
import { systemClock } from "@muster/runtime";
import {
  type ActorProcess,
  type JobRun,
  type JobSummary,
  makeTempDirectory,
  processesNaming,
  spawnMuster,
  startJobRun,
  waitFor,
} from "@muster/testkit";
import { expect } from "vitest";

/** The job that the tests run. */
export const jobFile = fileURLToPath(new URL("../../../jobs/dates.toml", import.meta.url));

const smallArgs = ["batch.groups_per_step=16", "evaluation.prompts=64", "checkpoint.every_steps=4"].flatMap((set) => [
  "--set",
  set,
]);

/** A folder of runs that knows what was started in it. */
export interface Runs {
  readonly path: string;
  /** Starts a small job of `dates`. */
  start(job: string, ...args: string[]): Promise<JobRun>;
  /** Starts any other command on this folder. */
  muster(command: string, ...args: string[]): Promise<ActorProcess>;
  /** Fails unless every process that names the folder ends by itself and an audit of its runs finds nothing; then removes it. */
  close(): Promise<void>;
  /** Leaves a run out of the audit: somebody damages it on purpose. */
  damaged(job: string): void;
}

/** Opens an empty folder of runs; close it after the test. */
export async function openRuns(): Promise<Runs> {
  const folder = await makeTempDirectory();
  const { path } = folder;
  const started: ActorProcess[] = [];
  const damaged = new Set<string>();
  const keep = <P extends ActorProcess>(process: P): P => {
    started.push(process);
    return process;
  };
  return {
    path,
    async start(job, ...args) {
      const run = await startJobRun({ runs: path, job, file: jobFile, args: [...smallArgs, ...args] });
      keep(run.process);
      return run;
    },
    damaged: (job) => void damaged.add(job),
    muster: async (command, ...args) => keep(await spawnMuster([command, "--runs", path, ...args])),
    async close() {
      try {
        await nothingLeft(path);
        await expectSound(path, damaged);
      } finally {
        for (const each of started) await each.kill();
        for (const { pid } of processesNaming(path)) process.kill(pid, "SIGKILL");
        await folder.remove();
      }
    },
  };
}

/** Audits the runs of a folder by their files; the journal costs a broker each, so it is left to tests of its own. */
async function expectSound(path: string, damaged: ReadonlySet<string>): Promise<void> {
  const isRun = (job: string): boolean => existsSync(join(path, job, "job.json"));
  const jobs = readdirSync(path).filter((job) => job !== "latest" && isRun(job) && !damaged.has(job));
  for (const job of jobs) {
    const { violations } = await checkRun(openRunFolder(join(path, job)), { journal: { missing: "left out" } });
    expect({ job, violations }).toEqual({ job, violations: [] });
  }
}

/** Waits until no process names the folder; five seconds are what orphans may take. */
export async function nothingLeft(path: string): Promise<void> {
  const left = () => processesNaming(path).map(({ pid, args }) => `${pid} ${args.join(" ")}`);
  await waitFor(() => left().length === 0, { what: "no process left", timeoutMs: 5_000, detail: left });
}

/** The compiled configuration of a run. */
export function configOf(run: Pick<JobRun, "directory">): JobConfig {
  return jobConfigSchema.parse(JSON.parse(readFileSync(join(run.directory, "job.json"), "utf8")));
}

/** Digest of the weights that one process gets which does everything itself, by the run's own configuration, or with another number of steps. */
export async function digestOfLocalTraining(run: Pick<JobRun, "directory">, steps?: number): Promise<string> {
  return (await localTraining(run, steps)).digest;
}

/** What one process gets which does everything itself: the digest of the weights, and the mean reward of each step. */
export async function localTraining(
  run: Pick<JobRun, "directory">,
  otherSteps?: number,
): Promise<{ readonly digest: string; readonly rewards: readonly number[] }> {
  const { task, weights, batch, sampling, loss, optimizer, timing, seed, ...config } = configOf(run);
  const steps = otherSteps ?? config.steps;
  if (weights.kind !== "folder") throw new Error(`weights come from ${weights.kind}`);
  const trained = await trainLocally({
    task: taskOf(task.name),
    reward: rewardOf(task.reward),
    folder: weights.path,
    seed,
    steps,
    ...batch,
    ...sampling,
    clip: loss,
    optimizer: { ...optimizer, warmupSteps: optimizer.lrWarmupSteps, finalRatio: optimizer.lrFinalRatio },
    rewardTimeoutMs: timing.rewardMs,
    clock: systemClock(),
    signal: new AbortController().signal,
  });
  return { digest: digestOf(trained.weights), rewards: trained.reports.map(({ reward }) => reward) };
}

/**
 * What went wrong in a run. A pull that an overloaded host broke off is tried again, and a silence that ended is only that: neither is a
 * failure of the job.
 */
export function failuresOf({ incidents }: JobSummary): readonly string[] {
  const isFailure = ({ kind, subject }: JobSummary["incidents"][number]) =>
    // A job of few groups a step may get worse at held-out prompts, and a machine that runs other tests beside it may slow one of its trainers: no fault of the job.
    kind !== "member.suspected" && (kind !== "alarm.raised" || !["weights", "held-out", "straggler"].includes(subject));
  return incidents.filter(isFailure).map(({ kind, subject, detail }) => `${kind} ${subject}: ${detail}`);
}

/** What is true of every run that ended well: nothing lost, nothing trained twice, nothing open. */
export function expectBalanced(summary: JobSummary): void {
  const { admitted, trained, aborted, quarantined, pending } = summary.ledger;
  expect(admitted).toBe(trained + aborted + quarantined + pending);
  expect({ lost: summary.lost, doubled: summary.doubled, pending }).toEqual({ lost: 0, doubled: 0, pending: 0 });
}
