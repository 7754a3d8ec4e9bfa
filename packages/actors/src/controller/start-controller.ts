import { planOf } from "@muster/machines";
import type { Identity } from "@muster/runtime";
import { errors } from "../errors.ts";
import { type Controller, type ControllerOptions, controllerId, type LostCheckpoint, Reign } from "./controller.ts";
import { replayJournal } from "./journal-replay.ts";

/**
 * Takes the job over and controls it until it ends, another controller takes it, or `abort`.
 *
 * @throws MUSTER_ERR_JOURNAL_LOST, MUSTER_ERR_NOTHING_TO_RESTORE (semantics 6.9)
 */
export async function startController(options: ControllerOptions): Promise<Controller> {
  const { config, environment } = options;
  const { job } = config;
  const identity: Identity = { job, id: controllerId, role: "controller", incarnation: environment.newIncarnation() };
  const transport = await environment.connect(identity);
  try {
    const found = await replayJournal(transport.journal(), planOf(config), options.logic);
    const lost = found.records === 0 ? await lostCheckpoint(options) : null;
    // Its writers were of that term: a lower one may not write after them.
    const replayed = lost ? { ...found, term: lost.term } : found;
    const reign = new Reign({ ...options, identity, transport, replayed, lost });
    await reign.open();
    return reign;
  } catch (error) {
    await transport.close(); // or the process would live on without a word
    throw error;
  }
}

/** Where a job goes on whose journal is empty: `null` when it has never begun. */
async function lostCheckpoint(options: ControllerOptions): Promise<LostCheckpoint | null> {
  const { config, newestCheckpoint, restoreLost } = options;
  const { directory } = config.checkpoint;
  const name = await newestCheckpoint?.(directory);
  if (!name) return null;
  if (!restoreLost) throw errors.JournalLost({ job: config.job, directory, name });
  const newest = await restoreLost(directory);
  if (!newest) throw errors.NothingToRestore({ job: config.job, directory, name });
  return newest;
}
