/** The folder of one run: who may use it, and what is written into it. */
import { createHash } from "node:crypto";
import { accessSync, constants, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { messageOf } from "@muster/base";
import { type JobConfig, jobConfigSchema } from "@muster/protocol";
import { makeFolderSync, makeOwnFolderSync } from "@muster/runtime";
import { newestName } from "../composition/runs.ts";
import { errors } from "../errors.ts";

/** A run's folder, held by this process. */
export interface RunDirectory {
  readonly path: string;
  /** The configuration of an earlier process of this run, when it is resumed. */
  readonly earlier: JobConfig | null;
  write(name: string, text: string): void;
  release(): void;
}

/** Creates or re-enters `runs/<job>`. @throws MUSTER_ERR_RUN_DIRECTORY, MUSTER_ERR_FOLDER_FOREIGN, MUSTER_ERR_JOB_BUSY, MUSTER_ERR_OPTION_INVALID */
export function openRunDirectory(runs: string, job: string): RunDirectory {
  if (job === newestName)
    throw errors.OptionInvalid({ option: "job", value: job, reason: "stands for the newest run; choose another name" });
  const path = join(runs, job);
  const lock = join(path, "run.pid");
  try {
    makeOwnFolderSync(path);
    makeFolderSync(join(path, "logs"));
    claim(lock, job);
  } catch (error) {
    if (isSystemError(error)) throw errors.RunDirectory({ directory: path, reason: messageOf(error) }, error);
    throw error;
  }
  const earlier = readConfig(join(path, "job.json"));
  linkLatest(runs, job);
  return {
    path,
    earlier,
    write(name, text) {
      const target = join(path, name);
      try {
        writeFileSync(`${target}.new`, text, { mode: 0o600 });
        renameSync(`${target}.new`, target);
      } catch (error) {
        if (isSystemError(error)) throw errors.RunDirectory({ directory: path, reason: messageOf(error) }, error);
        throw error;
      }
    },
    release: () => rmSync(lock, { force: true }),
  };
}

/**
 * Puts the broker's store of a job that was over beside the one that it goes on with: its journal is closed. Once more is once: where the store is gone
 * already, nothing is done. @throws MUSTER_ERR_RUN_DIRECTORY
 */
export function putStoreAside(directory: string, step: number): void {
  const store = join(directory, "nats");
  if (!statSync(store, { throwIfNoEntry: false })) return;
  const aside = join(directory, `nats.until-step-${step}`);
  try {
    rmSync(aside, { recursive: true, force: true });
    renameSync(store, aside);
  } catch (error) {
    throw errors.RunDirectory({ directory, reason: messageOf(error) }, error);
  }
}

/** Makes the folders that a job file may name. @throws MUSTER_ERR_FOLDER_UNUSABLE with the key */
export function openFolders({ checkpoint, data, replicas }: Pick<JobConfig, "checkpoint" | "data" | "replicas">): void {
  const folders = {
    ...(replicas.checkpoint > 0 ? { "checkpoint.directory": checkpoint.directory } : {}),
    "data.socket_directory": data.socketDirectory,
  };
  for (const [field, path] of Object.entries(folders))
    try {
      if (field === "data.socket_directory") makeOwnFolderSync(path);
      else makeFolderSync(path);
      accessSync(path, constants.W_OK | constants.X_OK);
    } catch (error) {
      throw errors.FolderUnusable({ field, path, reason: messageOf(error) }, error);
    }
}

/**
 * Folder of a job's sockets unless its configuration names one: short, because addresses of sockets are, gone with the run, and another one
 * for jobs of the same name in other folders of runs.
 */
export function socketDirectoryOf(runs: string, job: string): string {
  const place = createHash("sha256").update(resolve(runs)).digest("hex").slice(0, 8);
  return join(tmpdir(), `muster-${job}-${place}`);
}

function claim(lock: string, job: string): void {
  const holder = statSync(lock, { throwIfNoEntry: false }) ? Number(readFileSync(lock, "utf8")) : 0;
  if (holder > 0 && holder !== process.pid && isAlive(holder)) throw errors.JobBusy({ job, pid: holder });
  writeFileSync(lock, String(process.pid), { mode: 0o600 });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isSystemError(error) && error.code === "EPERM";
  }
}

/** The configuration of a run, and the text of it, as its first process left them; `null` where there is no run. @throws MUSTER_ERR_RUN_FILE */
export function readStored(directory: string): { readonly config: JobConfig; readonly configText: string } | null {
  const config = readConfig(join(directory, "job.json"));
  return config && { config, configText: readFileSync(join(directory, "config.txt"), "utf8") };
}

function readConfig(path: string): JobConfig | null {
  if (!statSync(path, { throwIfNoEntry: false })) return null;
  try {
    return jobConfigSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw errors.RunFile({ path, reason: messageOf(error) }, error);
  }
}

/** `runs/latest` points to the newest run; where links are not to be had, that is no reason to stop. */
function linkLatest(runs: string, job: string): void {
  const link = join(runs, newestName);
  try {
    rmSync(link, { force: true });
    symlinkSync(job, link);
  } catch (error) {
    if (!isSystemError(error)) throw error;
  }
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "syscall" in error;
}
