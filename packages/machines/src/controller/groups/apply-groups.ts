/** What samplers say of their leases: groups that are finished, stored in part, or handed back. Facts into the tables, nothing decided. */
import { decideFailure, type FailureKind, firstSeqOf, type GroupReceipt, type WorkItem } from "@muster/protocol";
import { withEntry } from "../../table/table.ts";
import { announce, type Change, type ControllerEffect, type ReportOf } from "../events.ts";
import { evictMember } from "../members/apply-membership.ts";
import { noteGroups } from "../members/paces.ts";
import { moved } from "../progress.ts";
import { stalenessOf } from "../settings.ts";
import { type ControllerState, type KeptReceipt, withMember, withStale } from "../state.ts";
import { isKnownCause, noteReceipts } from "./given-up.ts";
import { withLease } from "./lease-table.ts";
import { finishItems, keyOf, releasedFacts, requeue, withGroups, withPartials } from "./leases.ts";
import { isQueued } from "./queue.ts";
import { noteShortage } from "./shortages.ts";
import { noteUnasked, refuseReceipts, wasLeased } from "./sound-receipts.ts";

/** Longest time that a report can be about: a day. */
const durationMaxMs = 86_400_000;

/**
 * Finished groups: the first result of a group wins; late and duplicate ones are dropped and counted. A result whose tokens may be purged
 * by now is of no use, so its group waits again. Pure.
 */
export function applyCompleted(state: ControllerState, event: ReportOf<"groups.completed">): Change<ControllerState> {
  const { sound: possible, ...checked } = refuseReceipts(state, event);
  const leased = { leaseId: event.body.leaseId, from: event.from };
  const unasked = possible.filter((receipt) => isOpen(state, receipt) && !wasLeased(state, leased, receipt));
  const noted = noteUnasked(checked.state, event.from, unasked);
  const refused = { state: noted.state, effects: [...checked.effects, ...noted.effects] };
  const sound = possible.filter((receipt) => !unasked.includes(receipt));
  if (sound.length === 0) return refused;
  const fresh = sound.filter((receipt) => isOpen(state, receipt));
  const durationMs = Math.min(event.body.durationMs, durationMaxMs);
  const paced = noteGroups(refused.state, event.from, { groups: sound.length, durationMs });
  const settled = sound.reduce(
    (next, receipt) => settleReceipt(next, { ...receipt, by: event.from }),
    noteReceipts(paced, fresh, event.body.causes),
  );
  const keys = new Set(sound.map(({ step, index }) => `${step}.${index}`));
  const next = finishItems(
    settled,
    event.body.leaseId,
    (item) => item.purpose === "train" && keys.has(`${item.step}.${item.index}`),
  );
  const effects: ControllerEffect[] = event.body.causes.map((cause) => {
    const { stack: _, ...known } = cause;
    return announce("groups.aborted", { holder: event.from, ...(isKnownCause(state, cause) ? known : cause) });
  });
  return { state: next, effects: [...refused.effects, ...effects] };
}

/** True while a group waits for its result. Pure. */
export function isOpen(state: ControllerState, { step, index }: GroupReceipt): boolean {
  const groups = state.groups[step];
  return groups !== undefined && !groups.receipts[index] && !groups.quarantined.includes(index);
}

/** The first result of a group settles it; one that is too old is sampled again. Pure. */
export function settleReceipt(state: ControllerState, receipt: KeptReceipt): ControllerState {
  const groups = state.groups[receipt.step];
  const { dropped } = state;
  if (!groups || !isOpen(state, receipt))
    return { ...state, dropped: { ...dropped, duplicate: dropped.duplicate + 1 } };
  const staleness = (state.weights?.version ?? 0) + receipt.step - state.step.step - receipt.version;
  if (staleness > stalenessOf(state, receipt.step) || firstSeqOf(receipt) < state.purgedSeq) {
    const again = { purpose: "train", step: receipt.step, index: receipt.index, attempt: receipt.attempt } as const;
    return requeue(withStale(state), [again], { holder: "", reason: "stale", failure: null }).state;
  }
  const { sampled } = state;
  const { queue } = groups;
  const counted = { groups: sampled.groups + 1, tokens: sampled.tokens + receipt.tokens };
  return withGroups({ ...moved(state), sampled: counted }, receipt.step, {
    ...groups,
    queue: isQueued(queue, receipt.index) ? queue.filter(({ index }) => index !== receipt.index) : queue,
    receipts: withEntry(groups.receipts, `${receipt.index}`, receipt),
  });
}

/**
 * Work handed back: others may have it at once, the holder gets new work after a pause. When the holder's engine failed over it, that
 * counts against the work, and the rule of the failure may ask for a new life of the holder. Pure.
 */
export function applyReturned(state: ControllerState, event: ReportOf<"groups.returned">): Change<ControllerState> {
  const lease = state.leases[event.body.leaseId];
  if (lease?.holder !== event.from) return { state, effects: [] };
  const told = new Set(event.body.items.map(keyOf));
  const leased = lease.items.filter((item) => told.has(keyOf(item)));
  const next = finishItems(state, event.body.leaseId, (item) => leased.includes(item));
  const returned = withPartials(leased, event.body.items, state.purgedSeq);
  const { reason, failure = null, tokensWasted = 0 } = event.body;
  // Work that was not begun and has only another holder now is no news.
  const isBegun = returned.some((item, i) => item !== leased[i]);
  const isNews = failure !== null || isBegun || tokensWasted > 0;
  const why = { holder: isNews ? event.from : "", reason, failure };
  const queued = requeue(next, returned, why);
  const retryAtMs = state.nowMs + state.plan.timing.commandMs / 5;
  const paused = withMember(queued.state, event.from, { retryAtMs });
  const facts = releasedFacts(state, { why, items: returned, started: [], tokensWasted });
  const effects = [...(isNews && returned.length > 0 ? facts : []), ...queued.effects];
  const member = state.members[event.from];
  if (!failure || !member) return { state: paused, effects };
  const noted = failure === "oom" ? noteShortage(paused, member) : { state: paused, effects: [] };
  effects.push(...noted.effects);
  if (!isRestart(state, failure, returned)) return { state: noted.state, effects };
  const removed = evictMember(noted.state, member, {
    evidence: `its engine failed: ${reason}`,
    by: "engine",
    silentMs: 0,
  });
  return { state: removed.state, effects: [...effects, ...removed.effects] };
}

/** What a holder has drawn so far is stored: whoever has the work next, should the holder die, goes on with that. Pure. */
export function applySavedGroups(state: ControllerState, event: ReportOf<"groups.saved">): Change<ControllerState> {
  const { leaseId, items } = event.body;
  const lease = state.leases[leaseId];
  if (lease?.holder !== event.from) return { state, effects: [] };
  const saved = { ...lease, items: withPartials(lease.items, items, state.purgedSeq) };
  return { state: { ...state, leases: withLease(state.leases, leaseId, saved) }, effects: [] };
}

/** True when the rule of a failure asks for a new life of the replica, for one of these items at least. */
function isRestart({ plan }: ControllerState, failure: FailureKind, items: readonly WorkItem[]): boolean {
  const failures = items.map((item) => (item.purpose === "train" ? item.attempt : 0) + 1);
  return failures.some((count) => decideFailure(plan.failure, failure, count).action === "restart");
}
