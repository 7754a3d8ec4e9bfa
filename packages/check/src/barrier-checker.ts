/**
 * Barriers of scripts (S38, L9): each ends once, and everybody hears the same of it; who is said to have arrived has, and nobody else goes on; who has not
 * is named, unless it was named before, and is waited for until the deadline; what is left is shared out to the last item; and none is open for ever.
 */
import type { Body } from "@muster/protocol";
import type { Verdicts } from "./judge.ts";

type Arrival = Body<"barrier.arrived">;
type End = Body<"barrier.ended">;

/** The rules that all honest ranks say. */
export interface ScriptRules {
  readonly ranks: number;
  readonly timeoutMs: number;
  readonly onMissing: "wait" | "eject" | "abort";
  readonly quorum: number;
  readonly items: number;
}

interface BarrierRecord {
  readonly arrivals: Arrival[];
  end: End | null;
}

/** Compares what ranks say with what they are told. */
export class BarrierChecker {
  readonly #judge: Verdicts;
  readonly #rules: ScriptRules;
  readonly #table = new Map<string, BarrierRecord>();
  /** Ranks without which some barrier of the epoch went on, as `<epoch> <rank>`. */
  readonly #named = new Set<string>();
  #epoch = 0;

  constructor(judge: Verdicts, rules: ScriptRules) {
    this.#judge = judge;
    this.#rules = rules;
  }

  /** Somebody said that a rank is there; whether or not it is believed. @returns True the first time at this barrier. */
  arrives(body: Arrival): boolean {
    const key = keyOf(body);
    this.#epoch = Math.max(this.#epoch, body.epoch);
    const known = this.#table.get(key);
    if (known) known.arrivals.push(body);
    else this.#table.set(key, { arrivals: [body], end: null });
    return !known;
  }

  /** A barrier ended, for everybody to hear; said again for whoever asks again. */
  ended(end: End): void {
    const seen = this.#table.get(keyOf(end));
    const name = nameOf(end);
    this.#judge.require(seen !== undefined, "S38", () => `${name} has ended, and nobody was there`);
    if (!seen) return;
    const isSame = seen.end === null || JSON.stringify(seen.end) === JSON.stringify(end);
    this.#judge.require(isSame, "S38", () => `${name} has ended twice: ${said(seen.end)}, then ${said(end)}`);
    if (seen.end === null) {
      this.#checkEnd(seen.arrivals, end);
      this.#checkMissing(end);
    }
    seen.end ??= end;
  }

  /** A rank goes on after this barrier. */
  passes(rank: number, end: End): void {
    const seen = this.#table.get(keyOf(end))?.end;
    const isOne = seen?.outcome !== "aborted" && (seen?.arrived.includes(rank) ?? false);
    this.#judge.require(
      isOne,
      "S38",
      () => `rank ${rank} goes on after ${nameOf(end)}, which says ${said(seen ?? null)}`,
    );
  }

  /** The time of a barrier is over. */
  overdue(key: Pick<Arrival, "epoch" | "iteration" | "phase">): void {
    const isOver = this.#table.get(keyOf(key))?.end != null || key.epoch < this.#epoch;
    this.#judge.require(isOver, "L9", () => `${nameOf(key)} is open after its deadline`);
  }

  #checkEnd(arrivals: readonly Arrival[], end: End): void {
    const name = nameOf(end);
    const { outcome, arrived, missing, shares, coverage, decision } = end;
    const there = new Set(arrivals.map(({ rank }) => rank));
    const ghosts = arrived.filter((rank) => !there.has(rank));
    this.#judge.require(ghosts.length === 0, "S38", () => `${name} counts rank ${ghosts.join()}, who was never there`);
    const both = missing.filter((rank) => arrived.includes(rank));
    this.#judge.require(both.length === 0, "S38", () => `${name} misses rank ${both.join()}, who arrived`);
    const decisions = arrivals.flatMap((each) => (each.rank === 0 ? (each.decision ?? []) : []));
    const isDecided = decision === undefined || decisions.includes(decision);
    this.#judge.require(isDecided, "S38", () => `${name} tells decision ${decision}, which rank 0 has not taken`);
    const { onMissing, quorum, items } = this.#rules;
    const isAllowed = outcome !== "partial" || (onMissing === "eject" && arrived.length >= quorum);
    this.#judge.require(isAllowed, "S38", () => `${name} goes on with ${arrived.length} ranks, under its quorum`);
    this.#judge.require(
      outcome !== "whole" || missing.length === 0,
      "S38",
      () => `${name} is whole without ${missing}`,
    );
    const isGiven = outcome !== "aborted" || onMissing === "abort" || end.reason.startsWith("the job has ended");
    this.#judge.require(isGiven, "S38", () => `${name} is given up, and its ranks agreed on ${onMissing}`);
    if (outcome === "aborted") return;
    const lost = this.#undealt(arrivals, end);
    this.#judge.require(lost === 0, "S38", () => `${name} leaves out ${lost} items that nobody has done`);
    const left = Math.round((1 - coverage) * items);
    const dealt = shares.reduce((sum, { from, to }) => sum + to - from, 0);
    this.#judge.require(dealt === left, "S38", () => `${name} deals out ${dealt} items, and ${left} are left`);
    const sorted = [...shares].sort((a, b) => a.from - b.from);
    const isApart = sorted.every(
      ({ from, to, rank }, i) => from < to && to <= (sorted[i + 1]?.from ?? items) && arrived.includes(rank),
    );
    this.#judge.require(isApart, "S38", () => `${name} deals an item out twice, or to who is not there: ${said(end)}`);
  }

  /** Who is not there is named where it is waited for the first time, and not given up before its time. */
  #checkMissing(end: End): void {
    const { epoch, outcome, arrived, missing, waitedMs } = end;
    const { ranks, timeoutMs } = this.#rules;
    const isSaid = (rank: number): boolean =>
      arrived.includes(rank) ||
      missing.includes(rank) ||
      this.#named.has(`${epoch} ${rank}`) ||
      this.#isAhead(rank, end);
    const unsaid = Array.from({ length: ranks }, (_, rank) => rank).filter((rank) => !isSaid(rank));
    this.#judge.require(unsaid.length === 0, "S38", () => `${nameOf(end)} says nothing of rank ${unsaid.join()}`);
    if (outcome !== "partial") return;
    const isLate = waitedMs >= timeoutMs;
    this.#judge.require(isLate, "S38", () => `${nameOf(end)} goes on after ${waitedMs} of ${timeoutMs} ms`);
    for (const rank of missing) this.#named.add(`${epoch} ${rank}`);
  }

  /** True for a rank that came back after it was given up, and waits in a later iteration. */
  #isAhead(rank: number, { epoch, iteration }: End): boolean {
    const arrivals = [...this.#table.values()].flatMap((seen) => seen.arrivals);
    return arrivals.some((each) => each.rank === rank && each.epoch === epoch && each.iteration > iteration);
  }

  /** Items that nobody said to have done, in whatever arrival could be taken, and that are dealt to nobody. */
  #undealt(arrivals: readonly Arrival[], { shares }: End): number {
    const { items } = this.#rules;
    const claimed = arrivals.flatMap(({ done = [] }) => (done.every(({ to }) => to <= items) ? done : []));
    const covers = (item: number): boolean => [...claimed, ...shares].some(({ from, to }) => from <= item && item < to);
    return Array.from({ length: items }, (_, item) => item).filter((item) => !covers(item)).length;
  }
}

type Key = Pick<Arrival, "epoch" | "iteration" | "phase">;

function keyOf({ epoch, iteration, phase }: Key): string {
  return `${epoch}.${iteration}.${phase}`;
}

function nameOf({ epoch, iteration, phase }: Key): string {
  return `the barrier of epoch ${epoch}, iteration ${iteration}, phase ${phase}`;
}

function said(end: End | null): string {
  return end === null ? "nothing" : JSON.stringify(end).slice(0, 400);
}
