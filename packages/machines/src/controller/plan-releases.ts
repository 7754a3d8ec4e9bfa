/** Letting replicas go that want to leave, as soon as nothing depends on them. */
import type { Change } from "./events.ts";
import { isOn } from "./fleet/ranks.ts";
import { leasesOf } from "./groups/lease-table.ts";
import { crowd } from "./members/crowd.ts";
import { stopMembers } from "./orders.ts";
import { type ControllerState, countOf, holdsCurrent, type Member, membersOf } from "./state.ts";
import { keepersOf } from "./weights/memory.ts";

/** Lets draining replicas go as soon as nothing depends on them. Pure. */
export function planReleases(state: ControllerState): Change<ControllerState> | null {
  const leaving = crowd.select(
    state.members,
    // no mutant: where nobody leaves, nobody is found
    (those) => those.leaving > 0,
    (member) => member.health === "draining" && member.order?.kind !== "replica.stop" && mayLeave(state, member),
  );
  if (leaving.length === 0) return null;
  return stopMembers(state, leaving, "drained");
}

function mayLeave(state: ControllerState, member: Member): boolean {
  if (member.role === "node") return !Object.values(state.fleet.replicas).some((replica) => isOn(replica, member.id));
  if (member.role === "checkpoint") return member.order === null && !isLastHolder(state, member);
  if (member.role !== "policy") return leasesOf(state, member.id).length === 0;
  if (state.mesh.members.includes(member.id) && state.mesh.state === "ready" && hasSuccessor(state, member))
    return false;
  return !state.weights || hasSuccessor(state, member) || isDurable(state);
}

function hasSuccessor(state: ControllerState, member: Member): boolean {
  return membersOf(state, "policy").some(
    (other) => other.id !== member.id && other.health !== "draining" && holdsCurrent(state, other),
  );
}

/** What nobody but a leaving checkpoint actor has is waited for a policy replica to take, for as long as that one gives itself. */
function isLastHolder(state: ControllerState, member: Member): boolean {
  const isHeld = membersOf(state, "policy").some((policy) => holdsCurrent(state, policy));
  const [first, ...others] = keepersOf(state, state.weights);
  return !state.ending && !isHeld && first?.id === member.id && others.length === 0;
}

function isDurable(state: ControllerState): boolean {
  const { saved } = state.checkpoints;
  const isSaved = saved !== null && saved.version === state.weights?.version;
  return state.step.state === "sampling" && (isSaved || countOf(state, "checkpoint") === 0);
}
