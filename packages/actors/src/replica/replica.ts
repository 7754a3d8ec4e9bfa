/**
 * A replica's process: one incarnation after another. An incarnation registers, works, and leaves; one that was put out comes back
 * as a new one, with nothing of the old left.
 */
import { Incarnation } from "./incarnation.ts";
import type { ReplicaEnd, ReplicaOptions, Role } from "./work.ts";

/** A running replica. */
export interface Replica {
  /** Asks it to leave: it hands its work back and waits to be released. */
  stop(reason: string): void;
  readonly ended: Promise<ReplicaEnd>;
}

/** Runs a replica until it leaves for good. A fenced incarnation is followed by a new one. */
export function runReplica(role: Role, options: ReplicaOptions): Replica {
  const { logger } = options.environment;
  let stopping: string | null = null;
  let current: Incarnation | null = null;
  const live = async (): Promise<ReplicaEnd> => {
    for (;;) {
      current = await Incarnation.start(role, options);
      if (stopping !== null) current.stop(stopping);
      const end = await current.ended;
      if (end.outcome !== "fenced" || stopping !== null) return end;
      logger.warn({ reason: end.reason }, "fenced; coming back as a new incarnation");
    }
  };
  return {
    ended: live(),
    stop(reason) {
      stopping = reason;
      current?.stop(reason);
    },
  };
}
