/** With no policy replica at all there is nothing to go on with. */
import type { ReplicaRole } from "@muster/protocol";
import { type ControllerState, endingWith } from "../state.ts";
import { roomFor } from "./place.ts";

/** A replica was given up: a state in which the job ends over it, where no other one can take its place before the job has begun. Pure. */
export function endHopeless(state: ControllerState, role: ReplicaRole, detail: string): ControllerState {
  const policies = Object.values(state.fleet.replicas).filter((each) => each.role === "policy");
  const neverBegan = !state.weights && state.restore.lineage === 0 && !state.ending;
  if (!neverBegan || role !== "policy") return state;
  if (policies.some(({ health }) => health !== "RETIRED") || roomFor(state, "policy") !== null) return state;
  return endingWith(state, "failed", `no policy replica could start: ${detail}`);
}
