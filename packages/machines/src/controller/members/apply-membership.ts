/** Replicas coming and going (semantics 2 "Register", "Leave"; reliability 4.2 for the verdicts). */
import type { Body, EvidenceKind, FailureKind, MemberRole } from "@muster/protocol";
import { isKillSignal } from "../../restart-rule.ts";
import { withEntry } from "../../table/table.ts";
import { announce, type Change, type ControllerEffect, command, type ReportOf } from "../events.ts";
import { deviceClash } from "../fleet/devices.ts";
import { withFleet } from "../fleet/fleet-state.ts";
import { releaseHolder } from "../groups/leases.ts";
import { isFromOutside, noteOutsideLoss } from "../groups/outside-losses.ts";
import { noteShortage } from "../groups/shortages.ts";
import { type ControllerState, type Member, withMember, without } from "../state.ts";
import { noteLostTrainer } from "../step/lost-attempts.ts";
import { applyEnded, keepWaiting, mustWait, withEviction } from "./evictions.ts";
import { forgetSeenEnd, holdRestarts, noteUnseenEnd } from "./restarts.ts";

/** Incarnations remembered after their end. */
const goneMax = 256;

/** Exit code of a process that a supervisor or a container killed for its memory. */
const outOfMemory = 137;

const unchanged = (state: ControllerState): Change<ControllerState> => ({ state, effects: [] });

/** Why a member is out. */
export interface Evidence {
  readonly evidence: string;
  readonly by: EvidenceKind;
  /** Time since its last sign of life. */
  readonly silentMs: number;
}

/** A member as public facts name it. Pure. */
export const nameOf = (member: Member): { id: string; role: MemberRole; incarnation: string } => ({
  id: member.id,
  role: member.role,
  incarnation: member.incarnation,
});

/**
 * Admits, keeps waiting or refuses a replica that is no member. A new incarnation of a known id retires the old one, and tells it:
 * words of a dead life may come late and retire the one that lives, which then comes back as another. Pure.
 */
export function applyRegister(state: ControllerState, event: ReportOf<"replica.register">): Change<ControllerState> {
  const to = { id: event.from, incarnation: event.incarnation };
  const known = state.members[event.from];
  if (event.body.again === true || state.gone.includes(event.incarnation))
    return { state, effects: [command(to, "replica.fenced", { reason: "this incarnation is over" })] };
  const refusal = refusalOf(state, to.id, event.body);
  if (refusal) return { state, effects: [command(to, "replica.refused", { reason: refusal })] };
  const cleared = known ? retire(state, known, event.body) : unchanged(state);
  const held = holdRestarts(cleared.state, to, event.body);
  const next = mustWait(held.state, to.id)
    ? keepWaiting(held.state, to, event.body)
    : admit(held.state, to, event.body);
  // Why it waits is said once.
  const said = held.effects.length > 0 ? held.effects : next.effects;
  return { state: next.state, effects: [...cleared.effects, ...said] };
}

function retire(state: ControllerState, known: Member, by: Body<"replica.register">): Change<ControllerState> {
  const evidence = `a new incarnation registered: process ${by.pid} of ${by.host}`;
  const removed = removeMember(state, known, { how: "died", evidence, by: "replaced", silentMs: 0 });
  // One process that lives on as another life did not end.
  const isSame = by.pid === known.pid && by.host === known.host;
  return {
    state: isSame ? removed.state : noteUnseenEnd(removed.state, known),
    effects: [...removed.effects, command(known, "replica.fenced", { reason: evidence })],
  };
}

/** Takes a replica into the table. Pure. */
export function admit(
  state: ControllerState,
  to: { readonly id: string; readonly incarnation: string },
  body: Body<"replica.register">,
): Change<ControllerState> {
  const member: Member = {
    ...to,
    role: body.role,
    joinedSeq: state.joins + 1,
    host: body.host,
    pid: body.pid,
    addresses: [],
    ...(body.devices ? { devices: body.devices } : {}),
    health: "healthy",
    hungAtMs: null,
    recoveries: [],
    held: null,
    order: null,
    retryAtMs: 0,
    unanswered: 0,
  };
  const next: ControllerState = {
    ...state,
    joins: member.joinedSeq,
    ...withBuild(state, body),
    members: withEntry(state.members, member.id, member),
    waiting: without(state.waiting, member.id),
  };
  const effects: ControllerEffect[] = [{ type: "admit", ...admitted(to) }, announce("member.joined", nameOf(member))];
  return { state: next, effects };
}

const admitted = ({ id, incarnation }: { readonly id: string; readonly incarnation: string }) => ({
  to: id,
  incarnation,
});

/** Why a replica is not admitted, or `null`. Pure. */
export function refusalOf(state: ControllerState, id: string, body: Body<"replica.register">): string | null {
  if (state.ending) return `the job is ending: ${state.ending.reason}`;
  // Its place may be given away while its node can not be reached: two of one name would evict each other for ever.
  const placed = state.fleet.replicas[id];
  const node = placed?.node ?? null;
  if (node !== null && body.node !== undefined && body.node !== node)
    return `${id} has its place on ${node} now, and this process was started by ${body.node}`;
  if (placed?.group && body.life !== undefined && body.life < placed.life)
    return `this process is of life ${body.life} of ${id}, and its processes of life ${placed.life} take its place`;
  const { role, engineBuild } = body;
  const clash = role === "node" ? deviceClash(state, id, body) : null;
  if (clash !== null) return clash;
  const known = buildOf(state, role);
  if (known && engineBuild !== known)
    return `engine build "${engineBuild}" differs from "${known}" of the job's other ${role} replicas; replicas of one role share one build`;
  return null;
}

/** Build of the engines of a role, as far as one registered; trainers and samplers agree on a weight format and not on a build. */
function buildOf({ engineBuild, samplerBuild }: ControllerState, role: Member["role"]): string | null {
  if (role === "policy") return engineBuild;
  return role === "rollout" ? (samplerBuild ?? null) : null;
}

/** The build of a role's first engine is that of the role. */
function withBuild(
  state: ControllerState,
  { role, engineBuild }: Body<"replica.register">,
): Partial<Pick<ControllerState, "engineBuild" | "samplerBuild">> {
  if (engineBuild === "" || buildOf(state, role) !== null) return {};
  if (role === "policy") return { engineBuild };
  return role === "rollout" ? { samplerBuild: engineBuild } : {};
}

/** A replica wants to leave: no new work; the planners release it when nothing depends on it. Pure. */
export function applyDraining(state: ControllerState, id: string): Change<ControllerState> {
  const next = withMember(state, id, { health: "draining" });
  const node = next.fleet.nodes[id];
  if (!node || node.leaveDueAtMs !== undefined) return unchanged(next);
  const leaveDueAtMs = leaveDueAtMsOf(state);
  return unchanged(withFleet(next, { nodes: { ...next.fleet.nodes, [id]: { ...node, leaveDueAtMs } } }));
}

/** Half of the time that a node gives itself is for successors, the rest for handing back what is not finished. Pure. */
function leaveDueAtMsOf({ nowMs, plan }: Pick<ControllerState, "nowMs" | "plan">): number {
  return nowMs + plan.timing.drainMs / 2;
}

/** A replica has left by itself. Pure. */
export function applyLeft(state: ControllerState, event: ReportOf<"replica.left">): Change<ControllerState> {
  const member = state.members[event.from];
  if (member?.incarnation !== event.incarnation) return unchanged(state);
  const removed = removeMember(state, member, { how: "left", evidence: event.body.reason });
  return { state: noteUnseenEnd(removed.state, member), effects: removed.effects };
}

/** A supervisor saw a process end. It counts only for the very process that registered. Pure. */
export function applyExited(state: ControllerState, event: ReportOf<"process.exited">): Change<ControllerState> {
  const { id, host, pid, code, signal, oom = false, words, rank = 0 } = event.body;
  if (rank > 0) return unchanged(state);
  const member = state.members[id];
  const freed = applyEnded(forgetSeenEnd(state, event.body), event.body);
  if (!member || member.pid !== pid || member.host !== host) return unchanged(freed);
  const isShort = oom || code === outOfMemory;
  const how = `process ended with ${signal ?? `code ${code}`}${isShort ? ", short of memory" : ""}`;
  const evidence = words === undefined ? how : `${how}: ${words}`;
  const failure = isShort ? "oom" : "engine_crash";
  const isKill = !isShort && isKillSignal(signal);
  return removeMember(freed, member, { how: "died", evidence, by: "exit", silentMs: 0, failure, isKill });
}

/** Removes a member that may still live. It is told, so that it comes back as a new incarnation once it can. Pure. */
export function evictMember(state: ControllerState, member: Member, why: Evidence): Change<ControllerState> {
  const removed = removeMember(state, member, { how: "died", ...why });
  return {
    state: withEviction(removed.state, member),
    effects: [...removed.effects, command(member, "replica.fenced", { reason: why.evidence })],
  };
}

/** Takes out a member whose process has ended, or is being ended, for certain. It is told all the same, as it may still run. Pure. */
export function endMember(
  state: ControllerState,
  member: Member,
  why: Evidence & { readonly failure?: FailureKind; readonly isKill?: boolean },
): Change<ControllerState> {
  const removed = removeMember(state, member, { how: "died", ...why });
  return {
    state: removed.state,
    effects: [...removed.effects, command(member, "replica.fenced", { reason: why.evidence })],
  };
}

/** Takes a member out: its leases go back at once, and the mesh is rebuilt by the planner that misses it. Pure. */
function removeMember(
  state: ControllerState,
  member: Member,
  end:
    | ({ readonly how: "died"; readonly failure?: FailureKind; readonly isKill?: boolean } & Evidence)
    | { readonly how: "left"; readonly evidence: string },
): Change<ControllerState> {
  const isOutside = end.how === "died" && isFromOutside(end);
  const released = releaseHolder(isOutside ? noteOutsideLoss(state, member.id) : state, {
    holder: member.id,
    reason: `${member.id} ${end.how}`,
    failure: end.how === "left" ? null : (end.failure ?? "engine_crash"),
    isOutside,
  });
  const isShort = end.how === "died" && end.failure === "oom";
  const noted = isShort ? noteShortage(released.state, member) : { state: released.state, effects: [] };
  const left = end.how === "died" ? noteLostTrainer(noted.state, member, { ...end, isOutside }) : noted.state;
  const fact =
    end.how === "died"
      ? announce("member.died", { ...nameOf(member), evidence: end.evidence, by: end.by, silentMs: end.silentMs })
      : announce("member.left", { ...nameOf(member), reason: end.evidence });
  return {
    state: {
      ...left,
      members: without(left.members, member.id),
      gone: [...state.gone, member.incarnation].slice(-goneMax),
    },
    effects: [fact, ...released.effects, ...noted.effects],
  };
}
