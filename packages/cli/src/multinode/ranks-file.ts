/** `ranks.json` in the folder of a run on several hosts: which ranks are there, as the master saw it last. */
import { readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@muster/base";
import { z } from "zod";
import { errors } from "../errors.ts";
import type { DiskWatch } from "../run/disk-watch.ts";
import type { RunDirectory } from "../run/run-directory.ts";

const schema = z.object({
  host: z.string(),
  port: z.number(),
  ranks: z.array(z.object({ rank: z.number(), host: z.string().nullable(), sinceMs: z.number() })),
});

/** All ranks, and where they join. */
export type RankRoster = Readonly<Omit<z.infer<typeof schema>, "ranks">> & { readonly ranks: readonly RankState[] };

/** A rank as the master sees it: its host, `null` while it is missing, and wall time since when. */
export type RankState = Readonly<z.infer<typeof schema>["ranks"][number]>;

const ranksFile = "ranks.json";

/** Writes who is there; `null` removes it, where a run goes on with this host alone. A full disk is told of, and ends nothing. */
export function writeRanks(
  directory: Pick<RunDirectory, "path" | "write">,
  disk: Pick<DiskWatch, "attempt">,
  ranks: RankRoster | null,
): void {
  const path = join(directory.path, ranksFile);
  if (ranks === null) rmSync(path, { force: true });
  else disk.attempt(path, () => directory.write(ranksFile, `${JSON.stringify(ranks)}\n`));
}

/** Reads it; `null` for a job of one host, and for a job of which this host has no folder. @throws MUSTER_ERR_RUN_FILE */
export function readRanks(directory: string): RankRoster | null {
  const path = join(directory, ranksFile);
  if (!statSync(path, { throwIfNoEntry: false })) return null;
  try {
    return schema.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw errors.RunFile({ path, reason: messageOf(error) }, error);
  }
}
