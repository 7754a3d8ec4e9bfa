import type { Transport } from "@muster/transport";

/** The connections every test has. */
export interface Actors {
  readonly controller: Transport;
  readonly rollout: Transport;
  readonly policy: Transport;
}
