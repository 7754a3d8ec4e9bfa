/** What the processes of a replica that are not its rank 0 know of their job: its configuration and its data-plane key, from files that their node writes. */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { type JobConfig, jobConfigSchema } from "@muster/protocol";
import { makeFolderSync } from "@muster/runtime";
import { errors } from "../errors.ts";
import type { Admission } from "../replica/work.ts";

const pathIn = (directory: string): string => join(directory, "ranks", "job.json");
const keyIn = (directory: string): string => join(directory, "ranks", "data.key");

/** Writes both where the ranks of this host read it. Nodes that share the folder write the same. */
export function writeRankConfig(directory: string, { config, dataKey }: Admission): void {
  makeFolderSync(join(directory, "ranks"));
  replace(keyIn(directory), dataKey);
  replace(pathIn(directory), JSON.stringify(config));
}

function replace(path: string, content: string | Uint8Array): void {
  const part = `${path}.${process.pid}`;
  writeFileSync(part, content, { mode: 0o600 });
  renameSync(part, path);
}

/** Reads the configuration. @throws MUSTER_ERR_RANK_CONFIG */
export function readRankConfig(directory: string): JobConfig {
  return read(pathIn(directory), (content) => jobConfigSchema.parse(JSON.parse(content.toString("utf8"))));
}

/** Reads the key of the data plane. @throws MUSTER_ERR_RANK_CONFIG */
export function readRankKey(directory: string): Uint8Array {
  return read(keyIn(directory), (content) => Uint8Array.from(content));
}

function read<T>(path: string, parse: (content: Buffer) => T): T {
  try {
    return parse(readFileSync(path));
  } catch (error) {
    throw errors.RankConfig({ path, reason: messageOf(error) }, error);
  }
}
