import { planOf } from "@muster/machines/controller";
import type { Identity } from "@muster/protocol";
import { ControllerTerm, controllerId } from "./controller.ts";
import type { Controller, ControllerOptions } from "./controller-options.ts";
import { replayJournal } from "./journal-replay.ts";
import { lostCheckpoint } from "./lost-checkpoint.ts";
import { rulesOfProgram } from "./rules.ts";

/**
 * Takes the job over and controls it until it ends, another controller takes it, or `abort`.
 *
 * @throws MUSTER_ERR_JOURNAL_LOST, MUSTER_ERR_NOTHING_TO_RESTORE (semantics 6.9), MUSTER_ERR_JOURNAL_OTHER_RULES
 */
export async function startController(options: ControllerOptions): Promise<Controller> {
  const { config, environment } = options;
  const { job } = config;
  const identity: Identity = { job, id: controllerId, role: "controller", incarnation: environment.newIncarnation() };
  const transport = await environment.connect(identity);
  try {
    const rules = options.rules ?? rulesOfProgram();
    const found = await replayJournal(transport.journal(), planOf(config), options.logic, rules);
    const lost = found.records === 0 ? await lostCheckpoint(config, options) : null;
    // Its writers were of that term: a lower one may not write after them.
    const replayed = lost ? { ...found, term: lost.term } : found;
    const term = new ControllerTerm({ ...options, identity, transport, rules, replayed, lost });
    await term.open();
    return term;
  } catch (error) {
    await transport.close(); // or the process would live on without a word
    throw error;
  }
}
