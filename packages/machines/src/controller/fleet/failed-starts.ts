/**
 * Starts that fail: what keeps a role from ever becoming ready, again and again for one reason, will not go away by itself, e.g. a module that throws. The
 * job ends with that reason. A role that was ready once is waited for: what worked may work again.
 */
import { type ReplicaRole, replicaRoles, traitsOf } from "@muster/protocol";
import type { Change } from "../events.ts";
import { crowd } from "../members/crowd.ts";
import { type ControllerState, countOf, endingWith } from "../state.ts";
import { type FleetState, withFleet } from "./fleet-state.ts";

/** Starts of a role that may fail for one reason. */
const failuresMax = 6;
/** Reasons of a role that are told apart. */
const reasonsMax = 16;

type Starts = NonNullable<FleetState["starts"]>;

/** Notes that a start of a role has failed. Pure. */
export function noteFailedStart(state: ControllerState, role: ReplicaRole, reason: string): ControllerState {
  const { starts = {} } = state.fleet;
  const failures = starts[role] ?? {};
  if (failures === "ready" || (failures[reason] === undefined && Object.keys(failures).length >= reasonsMax))
    return state;
  const noted = { ...failures, [reason]: (failures[reason] ?? 0) + 1 };
  return withFleet(state, { starts: { ...starts, [role]: noted } });
}

/** Notes which roles are ready for the first time, and ends the job over one that never will be. Pure. */
export function planStarts(state: ControllerState): Change<ControllerState> | null {
  const { starts = {} } = state.fleet;
  const ready = replicaRoles.filter((role) => starts[role] !== "ready" && isReady(state, role));
  if (ready.length > 0) {
    const noted: Starts = { ...starts, ...Object.fromEntries(ready.map((role) => [role, "ready"])) };
    return { state: withFleet(state, { starts: noted }), effects: [] };
  }
  if (state.ending) return null;
  for (const role of replicaRoles) {
    const reason = reasonOf(state, role);
    if (reason !== null) return { state: endingWith(state, "failed", reason), effects: [] };
  }
  return null;
}

/** Who holds weights is ready once it does, a checkpoint actor once it has made some durable, anybody else once it is there. */
function isReady(state: ControllerState, role: ReplicaRole): boolean {
  if (role === "checkpoint") return state.checkpoints.saved !== null;
  const { count, holding } = crowd.of(state.members);
  return (traitsOf(role).holdsWeights ? holding : count)[role] > 0;
}

function reasonOf(state: ControllerState, role: ReplicaRole): string | null {
  const failures = state.fleet.starts?.[role] ?? {};
  // One that is there may still get on; a trainer that is there and can not make the first weights is what this is about.
  if (failures === "ready" || (role !== "policy" && countOf(state, role) > 0)) return null;
  const found = Object.entries(failures).find(([, times]) => times >= failuresMax);
  return found ? `no ${role} replica ever became ready: ${found[1]} starts failed, each with: ${found[0]}` : null;
}
