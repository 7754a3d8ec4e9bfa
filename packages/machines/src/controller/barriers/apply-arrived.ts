/** A rank of a script arrives at a barrier: it is noted once, answered as often as it comes, and refused with the reason where it can not be. */
import { arrive, arrivedOf, type BarrierRules, differenceOf, flawOfRules, openBarrier } from "../../phases/barrier.ts";
import { announce, type Change, type ControllerEffect, type ReportOf } from "../events.ts";
import { type ControllerState, withStale } from "../state.ts";
import {
  type Barriers,
  isOnlyReturned,
  type KeptBarrier,
  keptMax,
  keyOf,
  noBarriers,
  openMax,
} from "./barriers-state.ts";
import { answered } from "./tell-end.ts";

type Arrived = ReportOf<"barrier.arrived">;

const timeoutMsDefault = 600_000;

/** Notes an arrival. The last one ends the barrier; whoever comes again hears how it ended. Pure. */
export function applyArrived(state: ControllerState, event: Arrived): Change<ControllerState> {
  if (event.role !== "operator") return { state: withStale(state), effects: [] };
  const before = state.barriers ?? noBarriers;
  const { body } = event;
  // A higher epoch begins anew: whoever still waits in a lower one is told.
  const isAnew = body.epoch > before.epoch;
  const barriers: Barriers = isAnew ? { ...noBarriers, epoch: body.epoch } : before;
  const rules = rulesOf(body);
  const key = keyOf(body);
  const known = barriers.table[key] ?? null;
  const flaw = flawOf(state, barriers, { body, rules, known });
  if (flaw !== null) return { state, effects: [refused(event, flaw)] };
  const isBack = isReturning(barriers, body);
  const opened = counting(known ?? openedFor(barriers, body, rules, state.nowMs), { ...body, isBack }, state.nowMs);
  const { rank, done = [], decision } = body;
  const arrival = { rank, done, ...(decision === undefined ? {} : { decision }) };
  const there: KeptBarrier = { ...opened, ...arrive(opened, arrival, state.nowMs) };
  const { barrier, effects } = answered(there, state.nowMs);
  const { [String(rank)]: _, ...others } = barriers.out;
  const out = isBack ? others : barriers.out;
  const next = { ...state, barriers: { ...barriers, out, table: bounded({ ...barriers.table, [key]: barrier }) } };
  const given = isAnew ? Object.values(before.table).filter(({ end }) => end === null) : [];
  return { state: next, effects: [...given.flatMap((open) => refusedAll(open, body.epoch)), ...effects] };
}

function rulesOf(body: Arrived["body"]): BarrierRules {
  const { ranks, weights = [], quorum = ranks, timeoutMs = timeoutMsDefault, onMissing = "wait", items = 0 } = body;
  return { ranks, weights, quorum, timeoutMs, onMissing, items };
}

interface Asked {
  readonly body: Arrived["body"];
  readonly rules: BarrierRules;
  readonly known: KeptBarrier | null;
}

/** Why an arrival is not taken, with the field, the value and the way out; `null` when it is. */
function flawOf(state: ControllerState, barriers: Barriers, { body, rules, known }: Asked): string | null {
  const { epoch, iteration, phase, rank, ranks } = body;
  if (state.ending) return `the job is ending: ${state.ending.reason}`;
  if (rank >= ranks) return `rank = ${rank} is none of ${ranks} ranks; use 0 to ${ranks - 1}`;
  if (epoch < barriers.epoch)
    return `epoch = ${epoch} is over; the job is in epoch ${barriers.epoch}: use that, or ${barriers.epoch + 1} to begin anew`;
  const odd = flawOfRules(rules) ?? (body.done ?? []).map((range) => flawOfRange(range, rules.items)).find(Boolean);
  if (odd) return odd;
  const differs = known ? differenceOf(known.rules, rules) : null;
  if (known && differs !== null)
    return `${differs} = ${JSON.stringify(rules[differs])} is not what the others said, ${JSON.stringify(known.rules[differs])}; all ranks say the same`;
  if (known?.end && known.end.outcome !== "aborted" && !known.arrivals[rank])
    return `iteration ${iteration} phase ${phase} went on without rank ${rank}; come back at phase 0 of iteration ${iteration + 1}`;
  const outAt = barriers.out[rank];
  if (outAt !== undefined && !isReturning(barriers, body))
    return `rank ${rank} was ejected in iteration ${outAt}; come back at phase 0 of iteration ${outAt + 1} or later`;
  if (!known && isForgotten(barriers, body))
    return `iteration ${iteration} phase ${phase} is over and forgotten; go on after it, or use epoch ${epoch + 1} to begin anew`;
  const open = Object.values(barriers.table).filter(({ end }) => end === null).length;
  return !known && open >= openMax ? `${open} barriers are open already; let one of them end first` : null;
}

/** True for what comes before all that is remembered once there is no room for more: to open it again would be to wait for nobody. */
function isForgotten({ table }: Barriers, { iteration, phase }: Arrived["body"]): boolean {
  const finished = Object.values(table).filter(({ end }) => end !== null);
  const isBefore = (each: KeptBarrier): boolean => {
    const by = iteration - each.iteration || phase - each.phase;
    // no mutant: what is neither before nor after is remembered itself
    return by < 0;
  };
  return finished.length >= keptMax && finished.every(isBefore);
}

function flawOfRange({ from, to }: { readonly from: number; readonly to: number }, items: number): string | null {
  if (from <= to && to <= items) return null;
  return `done has ${from} to ${to}, which is no range within items = ${items}; use 0 ≤ from ≤ to ≤ items`;
}

function isReturning({ out }: Barriers, { rank, iteration, phase }: Arrived["body"]): boolean {
  const outAt = out[rank];
  return outAt !== undefined && phase === 0 && iteration > outAt;
}

function openedFor(barriers: Barriers, body: Arrived["body"], rules: BarrierRules, nowMs: number): KeptBarrier {
  const { epoch, iteration, phase } = body;
  const absent = new Set([...Object.keys(barriers.out).map(Number), ...aheadOf(barriers, iteration)]);
  return { ...openBarrier(rules, [...absent], nowMs), epoch, iteration, phase };
}

/** A barrier to which a rank comes: its time counts from the first one that did not come back. */
function counting(
  barrier: KeptBarrier,
  { rank, isBack }: { readonly rank: number; readonly isBack: boolean },
  nowMs: number,
): KeptBarrier {
  if (barrier.end || barrier.arrivals[rank]) return barrier;
  if (isBack) return { ...barrier, returned: [...(barrier.returned ?? []), rank] };
  return isOnlyReturned(barrier)
    ? { ...barrier, openedAtMs: nowMs, dueAtMs: nowMs + barrier.rules.timeoutMs }
    : barrier;
}

/** Ranks that wait at a later iteration, as those do that came back: they come to no earlier one. */
function aheadOf({ table }: Barriers, iteration: number): readonly number[] {
  return Object.values(table).flatMap((each) =>
    each.end === null && each.iteration > iteration ? arrivedOf(each) : [],
  );
}

/** Open ones stay; of those that ended the last ones. The order of the table is that in which they began. */
function bounded(table: Barriers["table"]): Barriers["table"] {
  const finished = Object.entries(table).filter(([, { end }]) => end !== null);
  const dropped = new Set(finished.slice(0, Math.max(0, finished.length - keptMax)).map(([key]) => key));
  return Object.fromEntries(Object.entries(table).filter(([key]) => !dropped.has(key)));
}

function refused({ from, incarnation, body }: Arrived, reason: string): ControllerEffect {
  const { epoch, iteration, phase, rank } = body;
  return announce("barrier.refused", { epoch, iteration, phase, rank, by: `${from} ${incarnation}`, reason });
}

/** Whoever waits in an epoch that is over. */
function refusedAll(barrier: KeptBarrier, epoch: number): readonly ControllerEffect[] {
  const reason = `epoch ${epoch} has begun`;
  return arrivedOf(barrier).map((rank) =>
    announce("barrier.refused", {
      ...{ epoch: barrier.epoch, iteration: barrier.iteration, phase: barrier.phase, rank },
      ...{ by: "", reason },
    }),
  );
}
