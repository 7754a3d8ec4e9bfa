/** Orders that were not answered in time, and members that are evicted because of it. */

import { keptFold } from "../table/fold.ts";
import { entriesOf } from "../table/table.ts";
import { type Change, type ControllerEffect, command } from "./events.ts";
import { releaseLease } from "./groups/leases.ts";
import { evictMember } from "./members/apply-membership.ts";
import { crowd } from "./members/crowd.ts";
import type { VersionOrder } from "./order.ts";
import { type ControllerState, type Lease, type Member, withMember } from "./state.ts";

/** A member that leaves so many orders in a row without an answer hangs, whatever its heartbeat says. */
const unansweredMax = 3;

/** Removes members that hang. Pure. */
export function evict(state: ControllerState, members: readonly Member[], evidence: string): Change<ControllerState> {
  return members.reduce<Change<ControllerState>>(
    (change, member) => {
      const removed = evictMember(change.state, member, { evidence, by: "deadline", silentMs: 0 });
      return { state: removed.state, effects: [...change.effects, ...removed.effects] };
    },
    { state, effects: [] },
  );
}

/** Evicts a member that computes otherwise than it should: its next life waits also when the first one is known to have ended. Pure. */
export function evictHeld(state: ControllerState, member: Member, evidence: string): Change<ControllerState> {
  const out = evict(state, [member], evidence);
  const { [member.id]: eviction } = out.state.evictions;
  const evictions = eviction
    ? { ...out.state.evictions, [member.id]: { ...eviction, isHeld: true } }
    : out.state.evictions;
  return { state: { ...out.state, evictions }, effects: out.effects };
}

/** Sends overdue orders again, or forgets them so that the planners decide anew; evicts who never answers. Pure. */
export function planOverdue(state: ControllerState): Change<ControllerState> | null {
  const { members, leases, nowMs } = state;
  const overdue = crowd.select(
    members,
    ({ dueAtMs }) => dueAtMs <= nowMs,
    ({ order }) => order !== null && order.dueAtMs <= nowMs,
  );
  const expired = earliestDue.of(leases) <= nowMs ? expiredIn(leases, nowMs) : [];
  if (overdue.length === 0 && expired.length === 0) return null;
  const renewed = overdue.reduce<Change<ControllerState>>(
    (change, member) => {
      const next = renew(change.state, member);
      return { state: next.state, effects: [...change.effects, ...next.effects] };
    },
    { state, effects: [] },
  );
  return expired.reduce<Change<ControllerState>>((change, leaseId) => {
    const next = releaseLease(change.state, leaseId, {
      reason: "the lease expired",
      failure: "engine_crash",
    });
    return { state: next.state, effects: [...change.effects, ...next.effects] };
  }, renewed);
}

const earliestDue = keptFold<Lease, number>({
  empty: Number.POSITIVE_INFINITY,
  of: ({ dueAtMs }) => dueAtMs,
  join: Math.min,
});

function expiredIn(leases: ControllerState["leases"], nowMs: number): readonly string[] {
  return entriesOf(leases).flatMap(([id, { dueAtMs }]) => (dueAtMs <= nowMs ? id : []));
}

function renew(before: ControllerState, member: Member): Change<ControllerState> {
  const { order } = member;
  const { commandMs } = before.plan.timing;
  const owed = member.owed && member.owed.dueAtMs > before.nowMs ? member.owed : null;
  const unanswered = member.unanswered + (owed ? 0 : 1);
  if (unanswered >= unansweredMax) return evict(before, [member], `${order?.kind} unanswered ${unanswered} times`);
  const state = withMember(before, member.id, { unanswered, ...(member.owed ? { owed: null } : {}) });
  const dueAtMs = owed?.dueAtMs ?? state.nowMs + commandMs;
  const { applied } = state;
  if (order?.kind === "step.apply" && applied?.version === order.version && applied.lineage === order.lineage) {
    const again = { ...order, dueAtMs };
    return {
      state: withMember(state, member.id, { order: again }),
      effects: [command(member, "step.apply", applied)],
    };
  }
  if (order?.kind === "replica.stop") {
    const again = { ...order, dueAtMs };
    const effects: ControllerEffect[] = [command(member, "replica.stop", { reason: "released" })];
    return { state: withMember(state, member.id, { order: again }), effects };
  }
  const free = { order: null, retryAtMs: state.nowMs, ...(owed ? { owed } : {}) };
  return { state: withMember(state, member.id, free), effects: [] };
}

/**
 * Gives a member an order about a version. One that an election has it given anew is due when it was due before, and a command's time from now at
 * the earliest. Pure.
 */
export function withVersionOrder(
  { nowMs, plan }: ControllerState,
  member: Member,
  { kind, lineage, version, withinMs, write }: Omit<VersionOrder, "dueAtMs"> & { readonly withinMs: number },
): Member {
  const { owed } = member;
  const isOwed = owed?.kind === kind && owed.version === version && owed.lineage === lineage;
  const full = nowMs + withinMs;
  const dueAtMs = isOwed ? Math.min(full, Math.max(owed.dueAtMs, nowMs + plan.timing.commandMs)) : full;
  return {
    ...member,
    order: { kind, lineage, version, dueAtMs, ...(write ? { write } : {}) },
    ...(owed ? { owed: null } : {}),
  };
}

/** A member that has answered its order. */
export const answered = { order: null, unanswered: 0 } as const;

/** Orders members to stop and marks the order as open. Pure. */
export function stopMembers(
  state: ControllerState,
  members: readonly Member[],
  reason: string,
): Change<ControllerState> {
  const dueAtMs = state.nowMs + state.plan.timing.commandMs;
  const order = { kind: "replica.stop", dueAtMs } as const;
  const effects: ControllerEffect[] = members.map((member) => command(member, "replica.stop", { reason }));
  return { state: members.reduce((next, { id }) => withMember(next, id, { order }), state), effects };
}
