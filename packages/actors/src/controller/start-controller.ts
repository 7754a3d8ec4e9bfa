import { planOf } from "@muster/machines";
import type { Identity } from "@muster/runtime";
import { errors } from "../errors.ts";
import { type Controller, type ControllerOptions, controllerId, Reign } from "./controller.ts";
import { replayJournal } from "./journal-replay.ts";

/**
 * Takes the job over and controls it until it ends, another controller takes it, or `abort`.
 *
 * @throws MUSTER_ERR_JOURNAL_LOST (semantics 6.9)
 */
export async function startController(options: ControllerOptions): Promise<Controller> {
  const { config, environment } = options;
  const { job } = config;
  const identity: Identity = { job, id: controllerId, role: "controller", incarnation: environment.newIncarnation() };
  const transport = await environment.connect(identity);
  try {
    const replayed = await replayJournal(transport.journal(), planOf(config), options.logic);
    if (replayed.records === 0) await refuseLost(options);
    const reign = new Reign({ ...options, identity, transport, replayed });
    await reign.open();
    return reign;
  } catch (error) {
    await transport.close(); // or the process would live on without a word
    throw error;
  }
}

async function refuseLost({ config, newestCheckpoint }: ControllerOptions): Promise<void> {
  const { directory } = config.checkpoint;
  const name = await newestCheckpoint?.(directory);
  if (name) throw errors.JournalLost({ job: config.job, directory, name });
}
