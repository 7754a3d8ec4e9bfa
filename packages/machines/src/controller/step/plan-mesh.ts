/** The policy mesh: who reduces gradients with whom. Joins and leaves wait for a step boundary; losses do not. */
import { type Body, meshTimesOf } from "@muster/protocol";
import { type Change, command } from "../events.ts";
import { isCordoned } from "../fleet/fleet-state.ts";
import { isFlaky } from "../members/apply-verdict.ts";
import { evict } from "../orders.ts";
import {
  type ControllerState,
  countOf,
  holdsCurrent,
  type Member,
  type Mesh,
  membersOf,
  meshMembersOf,
} from "../state.ts";
import { countAbsences } from "./absences.ts";
import { handedOn } from "./fingerprints.ts";

/** Ranks of a mesh: members that were in the previous one keep their order, joiners follow by arrival. Pure. */
export function rankMembers(previous: readonly string[], eligible: readonly Member[]): readonly Member[] {
  const ranks = new Map(previous.map((id, rank) => [id, rank]));
  const rankOf = ({ id, joinedSeq }: Member): number => ranks.get(id) ?? previous.length + joinedSeq;
  return [...eligible].sort((a, b) => rankOf(a) - rankOf(b));
}

/** Who is suspected again and again is no first rank, on which all others wait; it costs nobody their epoch to change that. Pure. */
function steadyFirst(members: readonly Member[]): readonly Member[] {
  return [...members.filter((member) => !isFlaky(member)), ...members.filter(isFlaky)];
}

/**
 * Starts a new epoch when the mesh is not the set of policy replicas that hold the committed state. Before the first epoch
 * it waits for `init_replicas`. Pure.
 */
export function planMesh(state: ControllerState): Change<ControllerState> | null {
  const { mesh, plan } = state;
  if (!state.weights || state.ending || state.step.state === "running") return null;
  if (mesh.state === "broken" && state.nowMs < mesh.dueAtMs) return null;
  const counted = countAbsences(state);
  if (counted) return counted;
  const holders = membersOf(state, "policy").filter((member) => isEligible(state, member));
  const eligible = withoutCordoned(state, withoutSuspects(state, holders));
  if (mesh.epoch === 0 && !isGathered(state, eligible.length)) return null;
  const members = firstRanks(rankMembers(mesh.members, eligible));
  if (members.length === 0) return null;
  if (isIntact(state, members)) {
    // An epoch that is being built gets its time: were it given up for each joiner, a hundred trainers that come one by one were a hundred epochs.
    if (mesh.state === "building") return state.nowMs >= mesh.dueAtMs ? evictLate(state) : null;
    if (mesh.state === "ready" && (members.length === mesh.members.length || isGathering(state))) return null;
  }
  const epoch = mesh.epoch + 1;
  const ranked = steadyFirst(members);
  const next: ControllerState = {
    ...state,
    mesh: {
      epoch,
      members: ranked.map(({ id }) => id),
      state: "building",
      joins: state.joins,
      built: [],
      dueAtMs: state.nowMs + meshTimesOf(plan.timing.meshMs).controllerMs,
      joinDueAtMs: null,
      ...(mesh.absences ? { absences: mesh.absences } : {}),
      ...handedOn(mesh, stayingOf(mesh, ranked)),
    },
  };
  const ranks = ranksOf(ranked);
  const body = { epoch, members: ranks };
  const effects = ranked.map((member) => command(member, "mesh.build", body));
  return { state: next, effects };
}

/**
 * Opens the window for joins when the first joiner comes, and closes it when nobody waits. It begins with the registration, so that the
 * time in which a joiner gets its weights counts. Pure.
 */
export function planJoinWindow(state: ControllerState): Change<ControllerState> | null {
  const { mesh, plan } = state;
  const isOpen = mesh.joinDueAtMs !== null;
  const isAwaited =
    mesh.epoch > 0 &&
    plan.timing.joinMs > 0 &&
    membersOf(state, "policy").some(({ id, health }) => health !== "draining" && !mesh.members.includes(id));
  if (isOpen === isAwaited) return null;
  const joinDueAtMs = isAwaited ? state.nowMs + plan.timing.joinMs : null;
  return { state: { ...state, mesh: { ...mesh, joinDueAtMs } }, effects: [] };
}

/** True when nobody of the mesh is lost or leaves it: a new life under an old id is no rank of it. */
function isIntact({ mesh }: ControllerState, members: readonly Member[]): boolean {
  return stayingOf(mesh, members).length === new Set(mesh.members).size;
}

/** Those of the members that were in the mesh in the same life. */
function stayingOf(mesh: Mesh, members: readonly Member[]): readonly Member[] {
  const ranks = new Set(mesh.members);
  return members.filter(({ id, joinedSeq }) => joinedSeq <= mesh.joins && ranks.has(id));
}

/**
 * True while joins are gathered, so that a hundred joiners are one epoch and not a hundred. A window that closes while one of them still comes
 * stays open for as long again at most: else that one waits for a whole window more. A loss or a leave waits for nobody, and takes along who is
 * there.
 */
function isGathering(state: ControllerState): boolean {
  const { mesh, nowMs, plan } = state;
  if (mesh.joinDueAtMs === null || nowMs < mesh.joinDueAtMs) return mesh.joinDueAtMs !== null;
  if (nowMs >= mesh.joinDueAtMs + plan.timing.joinMs) return false;
  return membersOf(state, "policy").some((member) => !mesh.members.includes(member.id) && isComing(state, member));
}

/** A joiner that is soon eligible: it pulls the newest version, or is silent for a moment. */
function isComing(state: ControllerState, member: Member): boolean {
  if (member.health === "draining" || member.health === "hung" || isCordoned(state, member.id)) return false;
  return member.health === "suspect" || !holdsCurrent(state, member);
}

/** Most ranks of a mesh: whoever comes beyond them is a spare, which has the weights and no part of a step. */
const ranksMax = 1_024;

/** Most processes with a shard each of a mesh: each of them reads where all are. */
const processesMax = 65_536;

/** As many as a mesh has room for, the first ones: who is a rank stays one; places that are left go by arrival. */
function firstRanks(ranked: readonly Member[]): readonly Member[] {
  // no mutant: up to 64 processes each are no bound
  const processes = ranked.reduce((most, member) => Math.max(most, member.ranks?.of ?? 1), 1);
  return ranked.slice(0, Math.min(ranksMax, Math.floor(processesMax / processes)));
}

/** Cordoned policy replicas stay out of the next mesh, unless there are no others. */
function withoutCordoned(state: ControllerState, members: readonly Member[]): readonly Member[] {
  const free = members.filter(({ id }) => !isCordoned(state, id));
  return free.length > 0 ? free : members;
}

/** Members as `mesh.build` names them: with their places when they are on several hosts, or where it is said where each of their processes serves. Pure. */
export function ranksOf(members: readonly Member[]): Body<"mesh.build">["members"] {
  const isSpread = members.some(({ host }) => host !== members[0]?.host);
  return members.map(({ id, incarnation, host, addresses, ranks, held }) => ({
    ...{ id, incarnation },
    ...(isSpread && !ranks ? { place: { host, addresses: [...addresses] } } : {}),
    ...(ranks && held ? { ranks: { ...ranks, ...held, addresses: [...addresses] } } : {}),
  }));
}

/** Members that did not join the epoch by its deadline are out; the next round builds a mesh without them. */
function evictLate(state: ControllerState): Change<ControllerState> {
  const missing = meshMembersOf(state).filter(({ id }) => !state.mesh.built.includes(id));
  return evict(state, missing, `epoch ${state.mesh.epoch} not joined in time`);
}

/**
 * A suspect gets no new work, so it is no rank of a new epoch while others are there; when it recovers, the next step boundary takes it in
 * again. It costs nobody their epoch: who became suspect in a mesh that works stays in it.
 */
function withoutSuspects({ mesh }: ControllerState, eligible: readonly Member[]): readonly Member[] {
  const stays = (member: Member): boolean => mesh.state === "ready" && mesh.members.includes(member.id);
  const trusted = eligible.filter((member) => member.health !== "suspect" || stays(member));
  return trusted.length > 0 ? trusted : eligible;
}

/** A member keeps its place while its `step.apply` is on the way, and while it pulls what it drifted from; a joiner must hold the state first. */
function isEligible(state: ControllerState, member: Member): boolean {
  if (member.health === "draining" || member.health === "hung") return false;
  const isNear = member.order?.kind === "step.apply" || member.isFollowing === true;
  return holdsCurrent(state, member) || (state.mesh.members.includes(member.id) && isNear);
}

function isGathered(state: ControllerState, eligible: number): boolean {
  const { initReplicas } = state.plan;
  return eligible >= initReplicas.policy && countOf(state, "rollout") >= initReplicas.rollout;
}
