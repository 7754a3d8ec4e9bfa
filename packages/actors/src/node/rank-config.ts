/** What the processes of a replica that are not its rank 0 know of their job: its configuration, from a file that their node writes. */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { type JobConfig, jobConfigSchema } from "@muster/protocol";
import { makeFolderSync } from "@muster/runtime";
import { errors } from "../errors.ts";

const pathIn = (directory: string): string => join(directory, "ranks", "job.json");

/** Writes the configuration where the ranks of this host read it. Nodes that share the folder write the same. */
export function writeRankConfig(directory: string, config: JobConfig): void {
  makeFolderSync(join(directory, "ranks"));
  const path = pathIn(directory);
  const part = `${path}.${process.pid}`;
  writeFileSync(part, JSON.stringify(config), { mode: 0o600 });
  renameSync(part, path);
}

/** Reads it. @throws MUSTER_ERR_RANK_CONFIG */
export function readRankConfig(directory: string): JobConfig {
  const path = pathIn(directory);
  try {
    return jobConfigSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw errors.RankConfig({ path, reason: messageOf(error) }, error);
  }
}
