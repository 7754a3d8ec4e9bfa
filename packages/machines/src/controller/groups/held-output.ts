/**
 * Results that a full groups stream does not take: they wait with their samplers, whose leases last meanwhile. Only a checkpoint makes room, so one is
 * ordered (`plan-checkpoint.ts`), and the operator hears of it, and of its end.
 */
import { announce, type Change, type ControllerEffect, type ReportOf } from "../events.ts";
import type { ControllerState } from "../state.ts";
import { withLease } from "./lease-table.ts";
import { keyOf } from "./leases.ts";
import { remedyFor, roomOf } from "./stream-room.ts";

/** Share of a lease after which nothing is held back any more, when nobody says so again: holders say it every quarter. */
const lastsShare = 0.5;

/** A sampler waits for room: its lease lasts, and nobody is to blame. Pure. */
export function applyHeldGroups(state: ControllerState, event: ReportOf<"groups.held">): Change<ControllerState> {
  const { leaseId, reason, items = [] } = event.body;
  const { nowMs, plan } = state;
  const lease = state.leases[leaseId];
  if (lease?.holder !== event.from) return { state, effects: [] };
  const done = [...new Set([...(lease.done ?? []), ...items.map(keyOf)])].slice(0, lease.items.length);
  const leases = withLease(state.leases, leaseId, { ...lease, done, dueAtMs: nowMs + plan.timing.leaseMs });
  const untilMs = nowMs + plan.timing.leaseMs * lastsShare;
  const heldBack = { sinceMs: state.heldBack?.sinceMs ?? nowMs, untilMs };
  const next = { ...state, leases, heldBack };
  const detail = `${event.from} waits with its results: ${reason}; ${roomOf(state)}${remedyFor(state)}`;
  // A purge is asked for once, and may have failed then.
  const purge: readonly ControllerEffect[] =
    state.purgedSeq > 0 ? [{ type: "groups.purge", beforeSeq: state.purgedSeq }] : [];
  return { state: next, effects: [...(state.heldBack ? [] : [alarm(detail)]), ...purge] };
}

/** Says when nothing is held back any more. Pure. */
export function planHeldOutput(state: ControllerState): Change<ControllerState> | null {
  const { heldBack, nowMs } = state;
  if (!heldBack || nowMs < heldBack.untilMs) return null;
  const detail = `over: the groups stream takes results again, after at most ${Math.round(nowMs - heldBack.sinceMs)} ms`;
  return { state: { ...state, heldBack: null }, effects: [alarm(detail)] };
}

function alarm(detail: string): ControllerEffect {
  return announce("alarm.raised", { alarm: "groups-full", detail: detail.slice(0, 2_000) });
}
