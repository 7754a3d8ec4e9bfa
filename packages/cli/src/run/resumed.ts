/** `muster run --resume`: a run that is there goes on with what it began with, but for the settings that may change. */
import { join, resolve } from "node:path";
import { readChanges } from "@muster/check";
import { newestCheckpointName } from "@muster/checkpoint";
import { foreseenFlaw, planOf } from "@muster/machines/controller";
import {
  type Body,
  type ChangedSettings,
  checkId,
  type JobConfig,
  parseCheckpointName,
  type Settings,
  settingsAt,
} from "@muster/protocol";
import { jobsIn } from "../composition/connection.ts";
import { pasted } from "../composition/pasted.ts";
import { newestName } from "../composition/runs.ts";
import { errors } from "../errors.ts";
import { describeRun, type RunState, sayRun } from "../job/run-state.ts";
import { settingsOf, valuesIn } from "../job/settings.ts";
import { readEvents } from "./read-events.ts";
import { readStored } from "./run-directory.ts";

/** Settings that are to change, and the first step with them; absent: the next one that has not begun. */
export type Change = Omit<Body<"job.change">, "commandId">;

/** A run that goes on. */
export interface Resumed {
  readonly config: JobConfig;
  readonly configText: string;
  /** `null` for none. */
  readonly change: Change | null;
  /** The step with which the job was over, where it goes on with more steps; `null` where it was not. */
  readonly prolongedAfter: number | null;
}

/** What was said beside the name of the run. */
export interface ResumeOptions {
  readonly runs: string;
  /** Pairs `key=value`. */
  readonly set: readonly string[];
  /** Keys that flags of their own set. */
  readonly flags: Readonly<Record<string, string | number | boolean>>;
  readonly fromStep: number | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Reads a run that is to go on. @throws MUSTER_ERR_JOB_UNKNOWN, MUSTER_ERR_JOB_NONE, MUSTER_ERR_SETTING_FIXED, MUSTER_ERR_SETTING_REFUSED */
export async function resumedRun(name: string, options: ResumeOptions): Promise<Resumed> {
  const { runs, set, flags, fromStep } = options;
  const folder = resolve(runs);
  const job = name === newestName ? jobsIn(folder)[0] : checkId("resume", name);
  if (job === undefined) throw errors.JobNone({ directory: folder, start: pasted("run") });
  const stored = readStored(join(folder, job));
  if (!stored) throw errors.JobUnknown({ job, directory: folder, start: pasted("run") });
  const pairs = [...Object.entries(flags).map(([key, value]) => `${key}=${value}`), ...set];
  if (pairs.length === 0) return { ...stored, change: null, prolongedAfter: null };
  const settings: Settings = settingsOf(pairs, valuesIn(stored.configText));
  const change = { settings, ...(fromStep === undefined ? {} : { fromStep }) };
  const prolongedAfter = await refuseForeseen(stored.config, {
    directory: join(folder, job),
    change,
    env: options.env,
  });
  return { ...stored, change, prolongedAfter };
}

interface Asked {
  readonly directory: string;
  readonly change: Change;
  readonly env: ResumeOptions["env"];
}

/**
 * What the job could only refuse is said before anything runs.
 * @returns The step with which the job was over, if it was. @throws MUSTER_ERR_SETTING_REFUSED
 */
async function refuseForeseen(config: JobConfig, { directory, change, env }: Asked): Promise<number | null> {
  const { job } = config;
  const run = describeRun(directory, job);
  const step = run.step ?? 0;
  const isOver = ["done", "stopped", "failed"].includes(run.state);
  const over = isOver ? await overText(config, { run, steps: change.settings.steps, env }) : null;
  const at = { step, changes: readChanges(directory) ?? changesIn(directory) };
  const reason = over ?? foreseenFlaw(planOf(config), at, change);
  if (reason !== null) throw errors.SettingRefused({ job, reason });
  return isOver ? step : null;
}

interface Over {
  readonly run: RunState;
  readonly steps: number | undefined;
  readonly env: ResumeOptions["env"];
}

/** Why a job that is over can not go on with more steps; `null` when it can: it is done, and its last step is in a checkpoint. */
async function overText({ checkpoint }: JobConfig, { run, steps, env }: Over): Promise<string | null> {
  const { directory } = checkpoint;
  const step = run.step ?? 0;
  const instead = 'begin a run with weights.source = "checkpoint:PATH"';
  if (run.state !== "done") return `${sayRun(run)}; ${instead}`;
  if (steps === undefined) return `${sayRun(run)}; name more steps, --steps ${step + 1} or more`;
  if (steps <= step)
    return `job.steps = ${steps}: step ${step} is committed, and the job is over; use ${step + 1} or more`;
  if (env.MUSTER_NATS_URL)
    return `job.steps = ${steps}: the job is over, and the broker is your own (MUSTER_NATS_URL); ${instead}`;
  const newest = parseCheckpointName((await newestCheckpointName(directory)) ?? "");
  if (newest?.step === step) return null;
  const found = newest ? `the newest one in ${directory} is of step ${newest.step}` : `${directory} has none`;
  return `job.steps = ${steps}: the job is over, and there is no checkpoint of step ${step} to go on from: ${found}`;
}

/**
 * What was changed in a run whose store is lost: its new journal knows nothing of it. It begins after the newest checkpoint, and takes no change of an
 * earlier step: what counted at its first step already counts from there on, with what is changed `more` there.
 */
export async function earlierChanges(
  directory: string,
  checkpoints: string,
  more: Settings = {},
): Promise<readonly Change[]> {
  const changes = readChanges(directory) ?? changesIn(directory);
  const newest = parseCheckpointName((await newestCheckpointName(checkpoints)) ?? "");
  const first = (newest?.step ?? 0) + 1;
  const settings = { ...settingsAt(changes, first), ...more };
  const later = changes
    .filter((change) => change.fromStep > first)
    .map((change) => ({ settings: change.settings, fromStep: change.fromStep }));
  return Object.keys(settings).length > 0 ? [{ settings }, ...later] : later;
}

/** Those that events tell of: a run of an earlier version of Muster has no file of them. */
function changesIn(directory: string): readonly ChangedSettings[] {
  return [...readEvents(directory)].flatMap(({ event }) =>
    event.kind === "job.changed" ? [{ settings: event.body.settings, fromStep: event.body.fromStep }] : [],
  );
}
