/** The policy mesh: who reduces gradients with whom. Joins and leaves wait for a step boundary; losses do not. */
import { type Change, command } from "./events.ts";
import { evict } from "./orders.ts";
import { type ControllerState, holdsCurrent, type Member, membersOf } from "./state.ts";

/** Ranks of a mesh: members that were in the previous one keep their order, joiners follow by arrival. Pure. */
export function rankMembers(previous: readonly string[], eligible: readonly Member[]): readonly Member[] {
  const rankOf = (member: Member): number => {
    const rank = previous.indexOf(member.id);
    return rank < 0 ? previous.length + member.joinedSeq : rank;
  };
  return [...eligible].sort((a, b) => rankOf(a) - rankOf(b));
}

/**
 * Starts a new epoch when the mesh is not the set of policy replicas that hold the committed state. Before the first epoch
 * it waits for `init_replicas`. Pure.
 */
export function planMesh(state: ControllerState): Change<ControllerState> | null {
  const { mesh, plan } = state;
  if (!state.weights || state.ending || state.step.state === "running") return null;
  if (mesh.state === "broken" && state.nowMs < mesh.dueAtMs) return null;
  const eligible = membersOf(state, "policy").filter((member) => isEligible(state, member));
  if (mesh.epoch === 0 && !isGathered(state, eligible.length)) return null;
  const members = rankMembers(mesh.members, eligible);
  const ids = members.map(({ id }) => id);
  const isSame = ids.join() === mesh.members.join() && (mesh.state === "ready" || mesh.state === "building");
  if (isSame && mesh.state === "building" && state.nowMs >= mesh.dueAtMs) return evictLate(state, members);
  if (members.length === 0 || isSame) return null;
  const epoch = mesh.epoch + 1;
  const next: ControllerState = {
    ...state,
    mesh: {
      epoch,
      members: ids,
      state: "building",
      joins: state.joins,
      built: [],
      dueAtMs: state.nowMs + plan.timing.meshMs,
    },
  };
  const ranks = members.map(({ id, incarnation }) => ({ id, incarnation }));
  const effects = members.map((member) => command(member, "mesh.build", { epoch, members: ranks }));
  return { state: next, effects };
}

/** Members that did not join the epoch by its deadline are out; the next round builds a mesh without them. */
function evictLate(state: ControllerState, members: readonly Member[]): Change<ControllerState> {
  const missing = members.filter(({ id }) => !state.mesh.built.includes(id));
  return evict(state, missing, `epoch ${state.mesh.epoch} not joined in time`);
}

/** A member keeps its place while its `step.apply` is on the way; a joiner must hold the state first. */
function isEligible(state: ControllerState, member: Member): boolean {
  if (member.health === "draining") return false;
  return holdsCurrent(state, member) || (state.mesh.members.includes(member.id) && member.order?.kind === "step.apply");
}

function isGathered(state: ControllerState, eligible: number): boolean {
  const { initReplicas } = state.plan;
  return eligible >= initReplicas.policy && membersOf(state, "rollout").length >= initReplicas.rollout;
}
