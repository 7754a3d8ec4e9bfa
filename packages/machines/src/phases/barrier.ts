/**
 * One barrier, as a pure machine: ranks arrive, a deadline passes, and it ends once, for good. It knows no clock and no broker: whoever uses it
 * says what time it is and what is to be told.
 */
import { type Range, type Share, shareOut, sizeOfRanges, unfinished } from "./shares.ts";

/** What happens at the deadline: it waits on, goes on with a quorum without the missing, or is given up. */
export type OnMissing = "wait" | "eject" | "abort";

/** What all ranks of a barrier must say alike. */
export interface BarrierRules {
  readonly ranks: number;
  /** By rank; empty: all alike. */
  readonly weights: readonly number[];
  /** Fewest ranks that go on without the others. */
  readonly quorum: number;
  readonly timeoutMs: number;
  readonly onMissing: OnMissing;
  /** Items of work that are shared out. */
  readonly items: number;
}

/** How it ended. */
export interface BarrierEnd {
  readonly outcome: "whole" | "partial" | "aborted";
  /** Expected, and not there. */
  readonly missing: readonly number[];
  readonly reason: string;
  readonly waitedMs: number;
  /** The share of the items that are finished; 1 where there are none. */
  readonly coverage: number;
  /** What is left, for those who arrived. */
  readonly shares: readonly Share[];
}

/** A barrier between its first arrival and whatever is kept of it. Plain JSON. */
export interface Barrier {
  readonly rules: BarrierRules;
  /** Ranks that were evicted before it began: nobody waits for them. */
  readonly absent: readonly number[];
  readonly openedAtMs: number;
  readonly dueAtMs: number;
  /** By rank: what each had finished when it arrived. */
  readonly arrivals: Readonly<Record<string, readonly Range[]>>;
  /** What rank 0 decided for all. */
  readonly decision?: string;
  readonly end: BarrierEnd | null;
}

/** Opens a barrier without anybody there. Pure. */
export function openBarrier(rules: BarrierRules, absent: readonly number[], nowMs: number): Barrier {
  return { rules, absent, openedAtMs: nowMs, dueAtMs: nowMs + rules.timeoutMs, arrivals: {}, end: null };
}

/** A barrier that waits on raises an alarm each time its deadline passes: not at each look at the clock. */
const timeoutMsMin = 1_000;

/** Why rules can not be; `null` when they can. Pure. */
export function flawOfRules({ ranks, weights, quorum, timeoutMs }: BarrierRules): string | null {
  if (weights.length > 0 && weights.length !== ranks)
    return `weights has ${weights.length} values for ${ranks} ranks; give one for each rank, e.g. ${Array.from({ length: Math.min(ranks, 4) }, () => 1).join(",")}`;
  if (timeoutMs < timeoutMsMin) return `timeoutMs = ${timeoutMs} is too short; use at least ${timeoutMsMin}`;
  if (quorum > ranks) return `quorum = ${quorum} is more than ranks = ${ranks}; use at most ${ranks}`;
  return null;
}

/** The first rule in which two differ; `null` when they are the same. Pure. */
export function differenceOf(a: BarrierRules, b: BarrierRules): keyof BarrierRules | null {
  const keys = Object.keys(a) as (keyof BarrierRules)[];
  return keys.find((key) => JSON.stringify(a[key]) !== JSON.stringify(b[key])) ?? null;
}

/** A rank is there, and what it has finished. Whoever comes again, or late, changes nothing. Pure. */
export function arrive(
  barrier: Barrier,
  { rank, done, decision }: { readonly rank: number; readonly done: readonly Range[]; readonly decision?: string },
  nowMs: number,
): Barrier {
  if (barrier.end || barrier.arrivals[rank]) return barrier;
  const arrivals = { ...barrier.arrivals, [rank]: done };
  const decided = rank === 0 && decision !== undefined ? { decision } : {};
  const next = { ...barrier, ...decided, arrivals, absent: barrier.absent.filter((other) => other !== rank) };
  return missingOf(next).length === 0 ? endedWith(next, "whole", nowMs) : next;
}

/** Ranks that are waited for, in order. Pure. */
export function missingOf({ rules, arrivals, absent }: Barrier): readonly number[] {
  return range(rules.ranks).filter((rank) => !arrivals[rank] && !absent.includes(rank));
}

/** Ranks that are there, in order. Pure. */
export function arrivedOf({ rules, arrivals }: Barrier): readonly number[] {
  return range(rules.ranks).filter((rank) => arrivals[rank]);
}

/**
 * What a barrier is at a time. At its deadline it ends as its rules have it; where it is to wait, or too few are there to go on without the
 * others, it gets as much time again: whoever uses it says who is missing. The same barrier when the time changes nothing. Pure.
 *
 * @param onMissing - What happens at the deadline, where it is something else than its rules have.
 */
export function expire(barrier: Barrier, nowMs: number, onMissing = barrier.rules.onMissing): Barrier {
  if (barrier.end || nowMs < barrier.dueAtMs) return barrier;
  const { quorum, timeoutMs } = barrier.rules;
  if (onMissing === "abort") return endedWith(barrier, "aborted", nowMs);
  const isEnough = arrivedOf(barrier).length >= quorum;
  if (onMissing === "eject" && isEnough) return endedWith(barrier, "partial", nowMs);
  return { ...barrier, dueAtMs: nowMs + timeoutMs };
}

/** Gives a barrier up. Pure. */
export function abortBarrier(barrier: Barrier, reason: string, nowMs: number): Barrier {
  const { end } = endedWith(barrier, "aborted", nowMs);
  return barrier.end || !end ? barrier : { ...barrier, end: { ...end, reason } };
}

function endedWith(barrier: Barrier, outcome: BarrierEnd["outcome"], nowMs: number): Barrier {
  const { rules, arrivals, openedAtMs } = barrier;
  const arrived = arrivedOf(barrier);
  const missing = missingOf(barrier);
  const left = unfinished(rules.items, Object.values(arrivals).flat());
  // no mutant: without weights all are alike, whatever each has
  const ranks = arrived.map((rank) => ({ rank, weight: rules.weights[rank] ?? 1 }));
  const coverage = rules.items === 0 ? 1 : 1 - sizeOfRanges(left) / rules.items;
  const waitedMs = Math.max(0, Math.round(nowMs - openedAtMs));
  const shares = outcome === "aborted" ? [] : shareOut(left, ranks);
  const reason = reasonOf(barrier, outcome, missing, waitedMs);
  return { ...barrier, end: { outcome, missing, reason, waitedMs, coverage, shares } };
}

function reasonOf(
  barrier: Barrier,
  outcome: BarrierEnd["outcome"],
  missing: readonly number[],
  waitedMs: number,
): string {
  const { ranks, quorum } = barrier.rules;
  const count = arrivedOf(barrier).length;
  if (outcome === "whole") return `all ${count} ranks that were waited for arrived`;
  const without = `${ranksText(missing)} did not arrive within ${waitedMs} ms`;
  return outcome === "partial" ? `${without}; ${count} of ${ranks} go on (quorum ${quorum})` : without;
}

/** Names ranks: `rank 2`, `ranks 1, 2`; of many the first. Pure. */
export function ranksText(ranks: readonly number[]): string {
  const shown = ranks.slice(0, 16).join(", ");
  const more = ranks.length > 16 ? ` and ${ranks.length - 16} more` : "";
  return `${ranks.length === 1 ? "rank" : "ranks"} ${shown}${more}`;
}

function range(count: number): readonly number[] {
  return Array.from({ length: count }, (_, i) => i);
}
