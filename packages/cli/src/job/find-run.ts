/** The folder of a run on this host, for commands that read what it left and ask nobody. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { checkId } from "@muster/protocol";
import { jobsIn } from "../composition/connection.ts";
import { pasted } from "../composition/pasted.ts";
import { newestName } from "../composition/runs.ts";
import { errors } from "../errors.ts";

/** A run on this host. */
export interface FoundRun {
  readonly job: string;
  readonly directory: string;
}

/** Finds a run by its name, the newest one without. @throws MUSTER_ERR_JOB_UNKNOWN, MUSTER_ERR_JOB_NONE */
export function findRun({ runs, job: name }: { readonly runs: string; readonly job?: string }): FoundRun {
  const folder = resolve(runs);
  const isNewest = name === undefined || name === newestName;
  const job = isNewest ? jobsIn(folder)[0] : checkId("job", name);
  if (job === undefined) throw errors.JobNone({ directory: folder, start: pasted("run") });
  const directory = join(folder, job);
  if (!existsSync(join(directory, "job.json")))
    throw errors.JobUnknown({ job, directory: folder, start: pasted("run") });
  return { job, directory };
}
