import type { CheckpointInfo } from "./read.ts";
import { openCheckpointStore } from "./store.ts";

/**
 * The newest complete and verified checkpoint in a folder, or `null`. Every file of every checkpoint there is read; damaged ones are passed over.
 *
 * @throws MUSTER_ERR_CHECKPOINT_READ_FAILED
 */
export async function newestVerifiedCheckpoint(root: string): Promise<CheckpointInfo | null> {
  // no mutant: nothing is saved here, so that nothing is removed
  const store = await openCheckpointStore({ root, keep: 1, now: () => new Date() });
  return store.latest();
}
