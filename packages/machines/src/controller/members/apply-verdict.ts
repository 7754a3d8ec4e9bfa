/** The failure detector's word on one incarnation (reliability 4.2). Words about older incarnations change nothing. */

import { announce, type Change, type VerdictEvent } from "../events.ts";
import { releaseHolder } from "../groups/leases.ts";
import { type ControllerState, type Member, withMember } from "../state.ts";
import { type Evidence, evictMember, nameOf } from "./apply-membership.ts";

/** Who hangs again within this time is out. */
const hangAgainMs = 600_000;
const hourMs = 3_600_000;
/** Recoveries within an hour after which a member is not trusted to hold. */
const recoveriesMax = 10;

/** Puts a verdict into the tables. Pure. */
export function applyVerdict(state: ControllerState, event: VerdictEvent): Change<ControllerState> {
  const member = state.members[event.id];
  if (member?.incarnation !== event.incarnation) return { state, effects: [] };
  const why = { evidence: event.evidence, by: event.kind, silentMs: event.silentMs };
  switch (event.type) {
    case "verdict.dead":
      return evictMember(state, member, why);
    case "verdict.hung":
      return applyHung(state, member, why);
    case "verdict.suspect":
      return {
        state: withHealth(state, member, "suspect"),
        effects: [announce("member.suspected", { ...nameOf(member), ...why })],
      };
    case "verdict.recover":
      return applyRecovered(state, member, why);
  }
}

/**
 * A member beats and does not move: its work goes to others, and the step goes on without it. Twice is too often. What it worked on may be what
 * hangs it, as it may be what ends a holder, and is tried and given up alike (S20).
 */
function applyHung(state: ControllerState, member: Member, why: Evidence): Change<ControllerState> {
  const { nowMs } = state;
  const fact = announce("member.hung", { ...nameOf(member), ...why });
  if (member.hungAtMs !== null && nowMs - member.hungAtMs < hangAgainMs) {
    const out = evictMember(state, member, { ...why, evidence: `hangs again: ${why.evidence}` });
    return { state: out.state, effects: [fact, ...out.effects] };
  }
  const marked = withMember(withHealth(state, member, "hung"), member.id, { hungAtMs: nowMs });
  const released = releaseHolder(marked, { holder: member.id, reason: `${member.id} hangs`, failure: "engine_crash" });
  return { state: released.state, effects: [fact, ...released.effects] };
}

function applyRecovered(state: ControllerState, member: Member, why: Evidence): Change<ControllerState> {
  const { nowMs } = state;
  const recent = [...member.recoveries, nowMs].filter((atMs) => nowMs - atMs < hourMs);
  const recoveries = recent.slice(-(recoveriesMax + 1));
  return {
    state: withMember(withHealth(state, member, "healthy"), member.id, { recoveries }),
    effects: [announce("member.recovered", { ...nameOf(member), ...why })],
  };
}

/** Who wants to leave goes on leaving, whatever is found of it. */
function withHealth(state: ControllerState, member: Member, health: Member["health"]): ControllerState {
  return member.health === "draining" ? state : withMember(state, member.id, { health });
}

/** True when a member was lost from view so often lately that others should not depend on it. Pure. */
export function isFlaky({ recoveries }: Member): boolean {
  return recoveries.length > recoveriesMax;
}
