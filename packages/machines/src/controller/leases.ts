/** Leased work going back to the queue: the one place where a group returns from a holder that will not finish it. */
import type { WorkItem } from "@muster/protocol";
import { announce, type Change, type ControllerEffect } from "./events.ts";
import type { ControllerState, StepGroups } from "./state.ts";

type TrainItem = Extract<WorkItem, { purpose: "train" }>;

/**
 * Puts items back in front of their queues. A failed attempt counts against the group; at the limit it is quarantined.
 * Items that are settled or queued already stay as they are. Pure.
 *
 * @param failed - True when the holder died or let the lease expire, false when it handed the work back untouched.
 */
export function requeue(state: ControllerState, items: readonly WorkItem[], failed: boolean): ControllerState {
  return items.reduce((next, item) => {
    if (item.purpose === "eval") return requeueEval(next, item, failed);
    const groups = next.groups[item.step];
    if (!groups || isPlaced(groups, item.index)) return next;
    const attempt = item.attempt + (failed ? 1 : 0);
    return attempt >= next.plan.failure.engineCrash.attempts
      ? quarantine(next, item, groups)
      : withGroups(next, item.step, { ...groups, queue: [{ index: item.index, attempt }, ...groups.queue] });
  }, state);
}

/** Public id of a piece of work. Pure. */
export function workIdOf(item: WorkItem): string {
  return item.purpose === "eval" ? `eval.${item.chunk}` : `${item.step}.${item.index}`;
}

/** Takes a lease away from its holder and gives its unfinished items back. Pure. */
export function releaseLease(state: ControllerState, leaseId: string, reason: string): Change<ControllerState> {
  const lease = state.leases[leaseId];
  if (!lease) return { state, effects: [] };
  const { [leaseId]: _, ...leases } = state.leases;
  const effects: ControllerEffect[] = [
    announce("groups.released", {
      holder: lease.holder,
      count: lease.items.length,
      reason,
      items: lease.items.map(workIdOf),
    }),
  ];
  return { state: requeue({ ...state, leases }, lease.items, true), effects };
}

/** Takes all leases of a holder away. Pure. */
export function releaseHolder(state: ControllerState, holder: string, reason: string): Change<ControllerState> {
  return Object.keys(state.leases)
    .filter((leaseId) => state.leases[leaseId]?.holder === holder)
    .reduce<Change<ControllerState>>(
      (change, leaseId) => {
        const next = releaseLease(change.state, leaseId, reason);
        return { state: next.state, effects: [...change.effects, ...next.effects] };
      },
      { state, effects: [] },
    );
}

/** Takes finished items off a lease; a lease without items ends. Pure. */
export function finishItems(
  state: ControllerState,
  leaseId: string,
  isFinished: (item: WorkItem) => boolean,
): ControllerState {
  const lease = state.leases[leaseId];
  if (!lease) return state;
  const items = lease.items.filter((item) => !isFinished(item));
  if (items.length > 0) return { ...state, leases: { ...state.leases, [leaseId]: { ...lease, items } } };
  const { [leaseId]: _, ...leases } = state.leases;
  return { ...state, leases };
}

function isPlaced(groups: StepGroups, index: number): boolean {
  return (
    groups.receipts[index] !== undefined ||
    groups.quarantined.includes(index) ||
    groups.queue.some((waiting) => waiting.index === index)
  );
}

/** A chunk of held-out prompts that keeps ending its holders is given up: it counts for nothing, and the job goes on. */
function requeueEval(
  state: ControllerState,
  item: Extract<WorkItem, { purpose: "eval" }>,
  failed: boolean,
): ControllerState {
  const run = state.evaluation;
  const { chunk } = item;
  if (!run || run.settled.includes(chunk) || run.queue.some((waiting) => waiting.chunk === chunk)) return state;
  const count = (run.attempts[chunk] ?? 0) + (failed ? 1 : 0);
  const attempts = { ...run.attempts, [chunk]: count };
  const next =
    count >= state.plan.failure.engineCrash.attempts
      ? { ...run, attempts, settled: [...run.settled, chunk] }
      : { ...run, attempts, queue: [item, ...run.queue] };
  return { ...state, evaluation: next };
}

function quarantine(state: ControllerState, item: TrainItem, groups: StepGroups): ControllerState {
  const quarantined = state.ledger.quarantined + state.plan.groupSize;
  const next = { ...state, ledger: { ...state.ledger, quarantined } };
  return withGroups(next, item.step, { ...groups, quarantined: [...groups.quarantined, item.index] });
}

/** The state with the groups of one step changed. Pure. */
export function withGroups(state: ControllerState, step: number, groups: StepGroups): ControllerState {
  return { ...state, groups: { ...state.groups, [step]: groups } };
}
