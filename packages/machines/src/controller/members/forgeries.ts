/**
 * Words under somebody else's name. The broker lets a role speak for its own members only, and a message that says otherwise of itself is refused
 * before it comes here; what is left is to compare the speaker with the roll of the job.
 */
import { announce, type Change, type ControllerEvent } from "../events.ts";
import type { ControllerState } from "../state.ts";

/** What replicas, nodes and operators say. */
type Report = Extract<ControllerEvent, { readonly role: unknown }>;

/** Why a report can not be from who it says; `null` when it may be. Pure. */
export function forgeryOf(state: ControllerState, event: Report): string | null {
  const { type, from, role } = event;
  if (role === "operator") return null;
  const known = state.members[from]?.role ?? state.fleet.replicas[from]?.role;
  if (known !== undefined && known !== role) return `${type} of ${from}, which is a ${known}, comes from role ${role}`;
  const host = state.members[from]?.host;
  const isElsewhere = type === "process.exited" && host !== undefined && event.body.host !== host;
  return isElsewhere
    ? `${from} on ${host} says that a process of ${event.body.host} ended (${event.body.id}, ${event.body.pid})`
    : null;
}

/**
 * A forged report changes nothing but a count. The operator hears of the first, the second, the fourth and so on, so that no flood of them becomes
 * one of alarms. Pure.
 */
export function refuseForgery(state: ControllerState, reason: string): Change<ControllerState> {
  const { dropped } = state;
  const forged = (dropped.forged ?? 0) + 1;
  const isTold = Number.isInteger(Math.log2(forged));
  const detail = `refused, it is not from who it says: ${reason}${forged > 1 ? `; ${forged} so far` : ""}`;
  return {
    state: { ...state, dropped: { ...dropped, forged } },
    effects: isTold ? [announce("alarm.raised", { alarm: "forged", detail })] : [],
  };
}
