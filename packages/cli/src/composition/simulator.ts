/** The simulator, which an installation for users need not have. */
import { messageOf } from "@muster/base";
import { errors } from "../errors.ts";

/** What the simulator's package exports. */
export type Simulator = typeof import("@muster/sim");

/** Loads the simulator. @throws MUSTER_ERR_SIMULATOR_MISSING with the reason when it is not there, or not built. */
export async function loadSimulator(): Promise<Simulator> {
  try {
    return await import("@muster/sim");
  } catch (error) {
    throw errors.SimulatorMissing({ reason: messageOf(error) }, error);
  }
}
