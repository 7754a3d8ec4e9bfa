/** Jobs of the examples, on copies that a test may change. */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type JobRun, startJobRun } from "@muster/testkit";
import type { Runs } from "./small-job.ts";

/** An example, copied into a folder of runs. */
export interface Example {
  /** The copy. */
  readonly folder: string;
  /** Starts its `job.toml` under a name, with `settings` as `--set` takes them. */
  start(job: string, ...settings: readonly string[]): Promise<JobRun>;
}

/** Copies the example of a name. */
export function copyExample({ path }: Runs, name: string): Example {
  const folder = join(path, name);
  cpSync(fileURLToPath(new URL(`../../../examples/${name}`, import.meta.url)), folder, { recursive: true });
  const file = join(folder, "job.toml");
  return {
    folder,
    start: (job, ...settings) =>
      startJobRun({ runs: path, job, file, args: settings.flatMap((setting) => ["--set", setting]) }),
  };
}
