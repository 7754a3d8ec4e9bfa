/** The files of a run, as `muster run` leaves them. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { type JobConfig, jobConfigSchema } from "@muster/protocol";
import { errors } from "../errors.ts";
import { beginsRow } from "./event-line.ts";
import { partsIn } from "./parts.ts";
import { firstLine } from "./read-lines.ts";

/** A run to look at. */
export interface RunFolder {
  readonly path: string;
  readonly config: JobConfig;
  /** Files of events, the oldest first. */
  readonly events: readonly string[];
  /** True while a process runs it. */
  readonly isRunning: boolean;
}

/** Opens the folder of a run. @throws MUSTER_ERR_RUN_FOLDER_INVALID */
export function openRunFolder(path: string): RunFolder {
  const text = readIfThere(join(path, "job.json"));
  if (text === null) throw errors.RunFolderInvalid({ path, reason: "it has no job.json" });
  return { path, config: configOf(path, text), events: partsIn(path, "events"), isRunning: isRunning(path) };
}

/** The text of a small file; `null` when it is not there. */
export function readIfThere(path: string): string | null {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ? readFileSync(path, "utf8") : null;
}

function configOf(path: string, text: string): JobConfig {
  try {
    return jobConfigSchema.parse(JSON.parse(text));
  } catch (error) {
    const reason = `its job.json can not be read: ${messageOf(error).slice(0, 400)}`;
    throw errors.RunFolderInvalid({ path, reason }, error);
  }
}

/**
 * Index of the file of events with which the last row begins, that of the broker's present store: a broker that lost its store begins another one,
 * and a file that was full goes on in the next.
 */
export function lastRow({ path, events }: Pick<RunFolder, "path" | "events">): number {
  return Math.max(
    0,
    events.findLastIndex((name) => beginsRowIn(join(path, name))),
  );
}

/** True where the first line of a file begins a row. An empty one was to go on with that of the file before. */
export function beginsRowIn(path: string): boolean {
  const first = firstLine(path);
  return first !== null && beginsRow(first);
}

/** True while a process runs the job in this folder. */
export function isRunning(path: string): boolean {
  const pid = Number(readIfThere(join(path, "run.pid")) ?? 0);
  if (!(pid > 0)) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
