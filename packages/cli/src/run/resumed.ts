/** `muster run --resume`: a run that is there goes on with what it began with, but for the settings that may change. */
import { join, resolve } from "node:path";
import { readChanges } from "@muster/check";
import { newestCheckpointName } from "@muster/checkpoint";
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
}

/** What was said beside the name of the run. */
export interface ResumeOptions {
  readonly runs: string;
  /** Pairs `key=value`. */
  readonly set: readonly string[];
  /** Keys that flags of their own set. */
  readonly flags: Readonly<Record<string, string | number | boolean>>;
  readonly fromStep: number | undefined;
}

/** Reads a run that is to go on. @throws MUSTER_ERR_JOB_UNKNOWN, MUSTER_ERR_JOB_NONE, MUSTER_ERR_SETTING_FIXED, MUSTER_ERR_RUN_FILE */
export function resumedRun(name: string, { runs, set, flags, fromStep }: ResumeOptions): Resumed {
  const folder = resolve(runs);
  const job = name === newestName ? jobsIn(folder)[0] : checkId("resume", name);
  if (job === undefined) throw errors.JobNone({ directory: folder, start: pasted("run") });
  const stored = readStored(join(folder, job));
  if (!stored) throw errors.JobUnknown({ job, directory: folder, start: pasted("run") });
  const pairs = [...Object.entries(flags).map(([key, value]) => `${key}=${value}`), ...set];
  if (pairs.length === 0) return { ...stored, change: null };
  const settings: Settings = settingsOf(pairs, valuesIn(stored.configText));
  return { ...stored, change: { settings, ...(fromStep === undefined ? {} : { fromStep }) } };
}

/**
 * What was changed in a run whose store is lost: its new journal knows nothing of it. It begins after the newest checkpoint, and takes no change of an
 * earlier step: what counted at its first step already counts from there on.
 */
export async function earlierChanges(directory: string, checkpoints: string): Promise<readonly Change[]> {
  const changes = readChanges(directory) ?? changesIn(directory);
  const newest = parseCheckpointName((await newestCheckpointName(checkpoints)) ?? "");
  const first = (newest?.step ?? 0) + 1;
  const settings = settingsAt(changes, first);
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
