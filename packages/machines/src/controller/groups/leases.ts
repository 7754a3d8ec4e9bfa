/**
 * Leased work going back to the queue: the one place where a group returns from a holder that will not finish it. A group that may be
 * to blame for the end of its holder is a suspect: it is tried again alone and elsewhere, and given up after some attempts (S20).
 */
import { type CauseCount, decideFailure, type FailureKind, firstSeqOf, type WorkItem } from "@muster/protocol";
import { cutItems, startedMax } from "../../lease-chunks.ts";
import { entriesOf } from "../../table/table.ts";
import { announce, type Change, type ControllerEffect } from "../events.ts";
import { type ControllerState, endingWith, type Lease, type QueuedGroup, type StepGroups } from "../state.ts";
import { noteQuarantined } from "./given-up.ts";
import type { Evaluation } from "./held-out-state.ts";
import { isEarlier, leasesOf, withLease, withoutLease } from "./lease-table.ts";
import { failuresOf, withOutsideLoss } from "./outside-losses.ts";
import type { OutsideLosses } from "./outside-losses-state.ts";
import { isQueued } from "./queue.ts";

type TrainItem = Extract<WorkItem, { purpose: "train" }>;

/** Why work goes back. */
export interface Return {
  /** Empty when nobody was kept from finishing it. */
  readonly holder: string;
  readonly reason: string;
  /** What failed over it; `null` when the work is not to blame. */
  readonly failure: FailureKind | null;
  /** The holder may have been lost by something from outside. */
  readonly isOutside?: boolean;
}

/**
 * Puts items back in front of their queues. A failure counts against each of them; its rule says when that is enough. Items that are
 * settled or queued already stay as they are. Pure.
 */
export function requeue(state: ControllerState, items: readonly WorkItem[], why: Return): Change<ControllerState> {
  return items.reduce<Change<ControllerState>>(
    (change, item) => {
      const next =
        item.purpose === "eval" ? requeueEval(change.state, item, why) : requeueGroup(change.state, item, why);
      return { state: next.state, effects: [...change.effects, ...next.effects] };
    },
    { state, effects: [] },
  );
}

function requeueGroup(state: ControllerState, item: TrainItem, why: Return): Change<ControllerState> {
  const groups = state.groups[item.step];
  if (!groups || isPlaced(groups, item.index)) return { state, effects: [] };
  const attempt = item.attempt + (why.failure ? 1 : 0);
  const outside = outsideOf(state, groups.outside, `${item.index}`, why);
  const failures = failuresOf(attempt, outside?.[item.index]);
  const decision = why.failure ? decideFailure(state.plan.failure, why.failure, failures) : null;
  if (decision?.action === "quarantine") return quarantine(state, { ...item, attempt }, why);
  const queued: QueuedGroup = {
    index: item.index,
    attempt,
    ...(why.holder === "" ? {} : { last: why.holder }),
    ...(decision && decision.afterMs > 0 ? { dueAtMs: state.nowMs + decision.afterMs } : {}),
    ...(item.partial ? { partial: item.partial } : {}),
  };
  const next = withGroups(state, item.step, {
    ...groups,
    queue: [queued, ...groups.queue],
    ...(outside ? { outside } : {}),
    ...(why.holder === "" ? {} : { former: withFormer(groups, item.index, why.holder) }),
  });
  if (decision?.action !== "abort" || next.ending) return { state: next, effects: [] };
  const reason = `a failure ends the job: ${decision.reason} over group ${workIdOf(item)}: ${why.reason}`;
  return { state: endingWith(next, "failed", reason), effects: [] };
}

type Outside = Readonly<Record<string, OutsideLosses>> | undefined;

/** Losses from outside by piece of work, with this one if it is. */
function outsideOf(
  state: ControllerState,
  known: Outside,
  key: string,
  { failure, isOutside = false }: Return,
): Outside {
  return failure && isOutside ? { ...known, [key]: withOutsideLoss(state, known?.[key]) } : known;
}

/** Holders of a group that are remembered. */
const formerMax = 8;

function withFormer({ former = {} }: StepGroups, index: number, holder: string): StepGroups["former"] & object {
  const others = (former[index] ?? []).filter((id) => id !== holder);
  return { ...former, [index]: [...others, holder].slice(-formerMax) };
}

/** Public id of a piece of work. Pure. */
export function workIdOf(item: WorkItem): string {
  return item.purpose === "eval" ? `eval.${item.chunk}` : `${item.step}.${item.index}`;
}

/** Takes a lease away from a holder that let it expire and gives its unfinished items back. Pure. */
export function releaseLease(
  state: ControllerState,
  leaseId: string,
  why: Omit<Return, "holder">,
): Change<ControllerState> {
  const lease = state.leases[leaseId];
  if (!lease) return { state, effects: [] };
  const leases = withoutLease(state.leases, leaseId);
  const { computed, open } = split([lease], lease.items);
  const given = { ...why, holder: lease.holder };
  const items = [...computed, ...open];
  const spared = requeue({ ...state, leases }, computed, { ...given, failure: null });
  const next = requeue(spared.state, open, given);
  const facts = releasedFacts(state, { why: given, items, started: items });
  return { state: next.state, effects: [...facts, ...spared.effects, ...next.effects] };
}

/** Items whose results wait for room only, and the others. */
function split(
  leases: readonly Lease[],
  items: readonly WorkItem[],
): { readonly computed: readonly WorkItem[]; readonly open: readonly WorkItem[] } {
  const done = new Set(leases.flatMap((lease) => lease.done ?? []));
  const isDone = (item: WorkItem): boolean => done.has(keyOf(item));
  return { computed: items.filter(isDone), open: items.filter((item) => !isDone(item)) };
}

/**
 * Takes all leases of a holder away. Of what it held only the part that it may have been working on when it ended can be to blame. Pure.
 */
export function releaseHolder(state: ControllerState, why: Return): Change<ControllerState> {
  const held = leasesOf(state, why.holder);
  if (held.length === 0) return { state, effects: [] };
  const leases = held.reduce((left, [id]) => withoutLease(left, id), state.leases);
  const chunks = held.flatMap(([, { items }]) => cutItems(items, state.plan.limits.chunkGroups));
  const started = chunks.slice(0, startedMax).flat();
  const untouched = chunks.slice(startedMax).flat();
  // What was not begun goes back first, so that it ends up behind what was.
  const { computed, open } = split(
    held.map(([, lease]) => lease),
    started,
  );
  const later = requeue({ ...state, leases }, [...untouched, ...computed], { ...why, failure: null });
  const sooner = requeue(later.state, open, why);
  const items = [...started, ...untouched];
  return {
    state: sooner.state,
    effects: [...releasedFacts(state, { why, items, started }), ...later.effects, ...sooner.effects],
  };
}

/** Most pieces of work that one public fact names. */
const itemsMax = 1_024;

/** The public facts that work went back, in pages; what was drawn of it by a holder that is gone can only be estimated. Pure. */
export function releasedFacts(
  { sampled }: ControllerState,
  released: {
    readonly why: Return;
    readonly items: readonly WorkItem[];
    readonly started: readonly WorkItem[];
    readonly tokensWasted?: number;
  },
): readonly ControllerEffect[] {
  const { why, items, started } = released;
  const usual = sampled.tokens / Math.max(1, sampled.groups);
  const estimate = started.reduce(
    (sum, item) => sum + (item.purpose === "train" ? Math.max(0, usual - (item.partial?.tokens ?? 0)) : 0),
    0,
  );
  const wasted = released.tokensWasted ?? Math.round(estimate);
  return Array.from({ length: Math.max(1, Math.ceil(items.length / itemsMax)) }, (_, page) => {
    const those = items.slice(page * itemsMax, (page + 1) * itemsMax);
    return announce("groups.released", {
      holder: why.holder,
      count: those.length,
      reason: why.reason,
      items: those.map(workIdOf),
      tokensWasted: page === 0 ? wasted : 0,
    });
  });
}

/**
 * Items with what is stored of them by now: the newer of what is known and what a holder tells. What may be purged already is of no use. Pure.
 */
export function withPartials(
  items: readonly WorkItem[],
  told: readonly WorkItem[],
  purgedSeq: number,
): readonly WorkItem[] {
  const partials = new Map(told.map((item) => [keyOf(item), item.purpose === "train" ? item.partial : undefined]));
  return items.map((item) => {
    const partial = partials.get(keyOf(item));
    if (item.purpose === "eval" || !partial) return item;
    const isNewer = partial.streamSeq > (item.partial?.streamSeq ?? 0) && firstSeqOf(partial) >= purgedSeq;
    return isNewer ? { ...item, partial } : item;
  });
}

/** One attempt at a piece of work. Pure. */
export function keyOf(item: WorkItem): string {
  return item.purpose === "eval" ? workIdOf(item) : `${workIdOf(item)}/${item.attempt}`;
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
  const { leases } = state;
  const isOver = items.length === 0;
  return { ...state, leases: isOver ? withoutLease(leases, leaseId) : withLease(leases, leaseId, { ...lease, items }) };
}

function isPlaced(groups: StepGroups, index: number): boolean {
  return groups.receipts[index] !== undefined || groups.quarantined.includes(index) || isQueued(groups.queue, index);
}

/** A chunk of held-out prompts that keeps ending its holders is given up: it counts for nothing, and the job goes on. */
function requeueEval(
  state: ControllerState,
  item: Extract<WorkItem, { purpose: "eval" }>,
  why: Return,
): Change<ControllerState> {
  const run = state.evaluation;
  const { chunk } = item;
  const { failure } = why;
  if (!run || run.settled.includes(chunk) || run.queue.some((waiting) => waiting.chunk === chunk))
    return { state, effects: [] };
  if (isLeased(state, run, chunk)) return { state, effects: [] };
  const count = (run.attempts[chunk] ?? 0) + (failure ? 1 : 0);
  const attempts = { ...run.attempts, [chunk]: count };
  const outside = outsideOf(state, run.outside, `${chunk}`, why);
  const failures = failuresOf(count, outside?.[chunk]);
  const isOver = failure !== null && decideFailure(state.plan.failure, failure, failures).action !== "retry";
  const next = { ...run, attempts, ...(outside ? { outside } : {}) };
  const evaluation = isOver ? { ...next, settled: [...run.settled, chunk] } : { ...next, queue: [item, ...run.queue] };
  const detail = `held-out prompts ${item.from} to ${item.from + item.count - 1} are given up after ${count} failures`;
  return {
    state: { ...state, evaluation },
    effects: isOver ? [announce("alarm.raised", { alarm: "evaluation", detail })] : [],
  };
}

/** True when a lease of this evaluation has the chunk: what comes back is of an earlier one, whose lease outlived it. */
function isLeased({ leases }: ControllerState, run: Evaluation, chunk: number): boolean {
  return entriesOf(leases).some(
    ([id, { items }]) => !isEarlier(run, id) && items.some((item) => item.purpose === "eval" && item.chunk === chunk),
  );
}

function quarantine(before: ControllerState, item: TrainItem, why: Return): Change<ControllerState> {
  const cause: Omit<CauseCount, "count"> = {
    name: "Quarantined",
    message:
      `group ${workIdOf(item)} after ${item.attempt} failures, the last one of ${why.holder}: ${why.reason}`.slice(
        0,
        2_000,
      ),
    // All quarantines for one kind of failure are one root cause.
    frame: `${why.failure}`,
    ...(why.failure ? { failure: why.failure } : {}),
    sample: `${workIdOf(item)}/0`,
  };
  const state = noteQuarantined(before, cause);
  const groups = state.groups[item.step];
  const quarantined = state.ledger.quarantined + state.plan.groupSize;
  const next = { ...state, ledger: { ...state.ledger, quarantined } };
  const fact = announce("groups.quarantined", {
    item: workIdOf(item),
    attempts: item.attempt,
    holder: why.holder,
    failure: why.failure ?? "engine_crash",
    reason: why.reason,
  });
  if (!groups) return { state, effects: [] };
  return {
    state: withGroups(next, item.step, { ...groups, quarantined: [...groups.quarantined, item.index] }),
    effects: [fact],
  };
}

/** The state with the groups of one step changed. Pure. */
export function withGroups(state: ControllerState, step: number, groups: StepGroups): ControllerState {
  return { ...state, groups: { ...state.groups, [step]: groups } };
}
