/** How the moves of managed replicas are told. */
import { announce, type ControllerEffect } from "../events.ts";
import type { FleetHealth, FleetReplica } from "./fleet-state.ts";

/** The public fact of a move. Pure. */
export function changed(
  id: string,
  replica: FleetReplica,
  { health, reason }: { readonly health: FleetHealth; readonly reason: string },
): ControllerEffect {
  const { role, node, life, deaths, health: from } = replica;
  return announce("fleet.changed", { id, role, node, from, to: health, life, deaths, reason });
}
