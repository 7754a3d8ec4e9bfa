/** A job whose journal is empty although its folder has checkpoints (semantics 6.9). */
import type { Cursor } from "@muster/checkpoint";
import type { FoundCheckpoint } from "@muster/machines/controller";
import type { JobConfig } from "@muster/protocol";
import { cursorFlaw } from "../checkpoint/cursor.ts";
import { errors } from "../errors.ts";

/** The checkpoint from which a job goes on whose store is lost. */
export interface LostCheckpoint {
  readonly found: Omit<FoundCheckpoint, "host">;
  /** Term of its writer. */
  readonly term: number;
  /** Where the input of its job goes on; absent where the checkpoint does not say it. */
  readonly cursor?: Cursor;
}

/** How a controller looks at checkpoints when its journal is empty. */
export interface LossOptions {
  /**
   * Name of the newest checkpoint in a folder, `null` when there is none. With it a job whose journal is empty although it has checkpoints is
   * refused: to begin it anew would be to lose it.
   */
  readonly newestCheckpoint?: (directory: string) => Promise<string | null>;
  /**
   * Reads the newest checkpoint in a folder that is whole. The operator says with it that the broker's store is lost for good: a job whose journal
   * is empty goes on from there, instead of being refused.
   */
  readonly restoreLost?: (directory: string) => Promise<LostCheckpoint | null>;
}

/**
 * Where a job goes on whose journal is empty; `null` when it has never begun.
 *
 * @throws MUSTER_ERR_JOURNAL_LOST, MUSTER_ERR_NOTHING_TO_RESTORE, MUSTER_ERR_CHECKPOINT_OF_OTHER_INPUT
 */
export async function lostCheckpoint(
  config: JobConfig,
  { newestCheckpoint, restoreLost }: LossOptions,
): Promise<LostCheckpoint | null> {
  const { directory } = config.checkpoint;
  const name = await newestCheckpoint?.(directory);
  if (!name) return null;
  if (!restoreLost) throw errors.JournalLost({ job: config.job, directory, name });
  const newest = await restoreLost(directory);
  if (!newest) throw errors.NothingToRestore({ job: config.job, directory, name });
  const flaw = cursorFlaw(newest.cursor, config);
  if (flaw !== null) throw errors.CheckpointOfOtherInput({ path: newest.found.path, job: config.job, flaw });
  const { sizes } = newest.cursor ?? {};
  return sizes ? { ...newest, found: { ...newest.found, sizes } } : newest;
}
