/** Tells each node the whole set that should run there, whenever it differs from what the node was told. */
import type { Body } from "@muster/protocol";
import { type Change, type ControllerEffect, command } from "../events.ts";
import { type ControllerState, type Member, membersOf, withMember } from "../state.ts";
import { withFleet } from "./fleet-state.ts";
import { isOff } from "./plan-fleet.ts";

/** Sends new assignments, and the last one again to a node that did not acknowledge it. Pure. */
export function planAssign(state: ControllerState): Change<ControllerState> | null {
  const effects: ControllerEffect[] = [];
  let next = state;
  for (const member of membersOf(state, "node")) {
    const node = next.fleet.nodes[member.id];
    if (!node || member.order?.kind === "replica.stop") continue;
    const replicas = assignmentOf(next, member);
    const assigned = JSON.stringify(replicas);
    const isLost = member.order === null && node.acked < node.revision;
    if (assigned === node.assigned && node.revision > 0 && !isLost) continue;
    const revision = next.fleet.revision + 1;
    const nodes = { ...next.fleet.nodes, [member.id]: { ...node, revision, assigned } };
    const dueAtMs = state.nowMs + state.plan.timing.commandMs;
    next = withMember(withFleet(next, { nodes, revision }), member.id, {
      order: { kind: "node.assign", revision, dueAtMs },
    });
    effects.push(command(member, "node.assign", { revision, replicas }));
  }
  return effects.length > 0 ? { state: next, effects } : null;
}

/**
 * What should run on a node: who is released stays until it has left the job, so that it can hand its work back. When the job is over nobody
 * who has left it, or was put out, runs again.
 */
function assignmentOf(state: ControllerState, node: Member): Body<"node.assign">["replicas"] {
  return Object.entries(state.fleet.replicas)
    .filter(([id, replica]) => {
      const isGone = (isOff(state, replica) || state.ending?.announced === true) && !state.members[id];
      return replica.node === node.id && replica.health !== "RETIRED" && !isGone;
    })
    .map(([id, { role, life, devices }]) => ({ id, role, life, ...(devices ? { devices: [...devices] } : {}) }));
}
