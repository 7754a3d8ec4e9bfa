/** Replicas coming and going (semantics 2 "Register", "Leave"; reliability 4.2 for the verdicts). */
import type { FailureKind, MemberRole } from "@muster/protocol";
import { announce, type Change, type ControllerEffect, command, type ReportOf, type VerdictEvent } from "./events.ts";
import { releaseHolder } from "./leases.ts";
import { type ControllerState, type Member, withMember, without } from "./state.ts";

/** Incarnations remembered after their end. */
const goneMax = 256;

/** Exit code of a process that a supervisor or a container killed for its memory. */
const outOfMemory = 137;

const unchanged = (state: ControllerState): Change<ControllerState> => ({ state, effects: [] });

const nameOf = (member: Member): { id: string; role: MemberRole; incarnation: string } => ({
  id: member.id,
  role: member.role,
  incarnation: member.incarnation,
});

/** Admits, re-admits or refuses a replica. A new incarnation of a known id retires the old one. Pure. */
export function applyRegister(state: ControllerState, event: ReportOf<"replica.register">): Change<ControllerState> {
  const to = { id: event.from, incarnation: event.incarnation };
  const known = state.members[event.from];
  if (known?.incarnation === event.incarnation)
    return { state, effects: [{ type: "admit", to: to.id, incarnation: to.incarnation }] };
  if (state.gone.includes(event.incarnation))
    return { state, effects: [command(to, "replica.fenced", { reason: "this incarnation is over" })] };
  const refusal = refusalOf(state, event);
  if (refusal) return { state, effects: [command(to, "replica.refused", { reason: refusal })] };
  const cleared = known
    ? removeMember(state, known, { how: "died", evidence: "a new incarnation registered" })
    : unchanged(state);
  const member: Member = {
    id: event.from,
    role: event.body.role,
    incarnation: event.incarnation,
    joinedSeq: state.joins + 1,
    host: event.body.host,
    pid: event.body.pid,
    addresses: [],
    health: "healthy",
    held: null,
    order: null,
    retryAtMs: 0,
    unanswered: 0,
  };
  const next: ControllerState = {
    ...cleared.state,
    joins: state.joins + 1,
    engineBuild: state.engineBuild ?? (event.body.engineBuild || null),
    members: { ...cleared.state.members, [member.id]: member },
  };
  const effects: ControllerEffect[] = [
    ...cleared.effects,
    { type: "admit", to: member.id, incarnation: member.incarnation },
    announce("member.joined", nameOf(member)),
  ];
  return { state: next, effects };
}

function refusalOf(state: ControllerState, event: ReportOf<"replica.register">): string | null {
  if (state.ending) return `the job is ending: ${state.ending.reason}`;
  const { engineBuild } = event.body;
  if (
    event.body.role !== "checkpoint" &&
    event.body.role !== "node" &&
    state.engineBuild &&
    engineBuild !== state.engineBuild
  )
    return `engine build "${engineBuild}" differs from the job's "${state.engineBuild}"; replicas of one job share one build`;
  return null;
}

/** A replica wants to leave: no new work; the planners release it when nothing depends on it. Pure. */
export function applyDraining(state: ControllerState, id: string): Change<ControllerState> {
  return unchanged(withMember(state, id, { health: "draining" }));
}

/** A replica has left by itself. Pure. */
export function applyLeft(state: ControllerState, event: ReportOf<"replica.left">): Change<ControllerState> {
  const member = state.members[event.from];
  if (member?.incarnation !== event.incarnation) return unchanged(state);
  return removeMember(state, member, { how: "left", evidence: event.body.reason });
}

/** A supervisor saw a process end. It counts only for the very process that registered. Pure. */
export function applyExited(state: ControllerState, event: ReportOf<"process.exited">): Change<ControllerState> {
  const { id, host, pid, code, signal, oom = false } = event.body;
  const member = state.members[id];
  if (!member || member.pid !== pid || member.host !== host) return unchanged(state);
  const isShort = oom || code === outOfMemory;
  const evidence = `process ended with ${signal ?? `code ${code}`}${isShort ? ", short of memory" : ""}`;
  return removeMember(state, member, { how: "died", evidence, failure: isShort ? "oom" : "engine_crash" });
}

/** The failure detector's word on one incarnation; words about older ones change nothing. Pure. */
export function applyVerdict(state: ControllerState, event: VerdictEvent): Change<ControllerState> {
  const member = state.members[event.id];
  if (member?.incarnation !== event.incarnation) return unchanged(state);
  switch (event.type) {
    case "verdict.dead":
      return putOut(state, member, event.evidence);
    case "verdict.suspect":
      if (member.health !== "healthy") return unchanged(state);
      return {
        state: withMember(state, member.id, { health: "suspect" }),
        effects: [announce("member.suspected", { ...nameOf(member), evidence: event.evidence })],
      };
    case "verdict.recover":
      if (member.health !== "suspect") return unchanged(state);
      return {
        state: withMember(state, member.id, { health: "healthy" }),
        effects: [announce("member.recovered", nameOf(member))],
      };
  }
}

/** Removes a member that may still live. It is told, so that it comes back as a new incarnation once it can. Pure. */
export function putOut(state: ControllerState, member: Member, evidence: string): Change<ControllerState> {
  const removed = removeMember(state, member, { how: "died", evidence });
  return {
    state: removed.state,
    effects: [...removed.effects, command(member, "replica.fenced", { reason: evidence })],
  };
}

/** Takes a member out: its leases go back at once, and the mesh is rebuilt by the planner that misses it. Pure. */
function removeMember(
  state: ControllerState,
  member: Member,
  end: { readonly how: "died" | "left"; readonly evidence: string; readonly failure?: FailureKind },
): Change<ControllerState> {
  const released = releaseHolder(state, {
    holder: member.id,
    reason: `${member.id} ${end.how}`,
    failure: end.how === "left" ? null : (end.failure ?? "engine_crash"),
  });
  const fact =
    end.how === "died"
      ? announce("member.died", { ...nameOf(member), evidence: end.evidence })
      : announce("member.left", { ...nameOf(member), reason: end.evidence });
  return {
    state: {
      ...released.state,
      members: without(released.state.members, member.id),
      gone: [...state.gone, member.incarnation].slice(-goneMax),
    },
    effects: [fact, ...released.effects],
  };
}
