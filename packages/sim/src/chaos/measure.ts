/** What the faults of a chaos run cost, from what was done and what was heard. Pure. */
import type { HeardEvent } from "./follow.ts";
import type { ChaosFault } from "./schedule.ts";

/** A fault as it was done. Times are wall milliseconds. */
export interface Injection extends ChaosFault {
  readonly injectedAtMs: number;
  /** Id of the process that was hit; `null` when there was none, and nothing was done. */
  readonly id: string | null;
  readonly pid: number | null;
}

/** What one fault cost. `null`: it was not noticed, or nothing had to recover. */
export interface Recovery {
  readonly n: number;
  /** `<kind>.<role>`. */
  readonly kind: string;
  readonly detectMs: number | null;
  readonly recoverMs: number | null;
  /** Somebody died of it, or a step failed: the job is not through with it before it has recovered. */
  readonly isLoss: boolean;
}

/** Order statistics of times. */
export interface Spread {
  readonly n: number;
  readonly p50_ms: number;
  readonly p90_ms: number;
  readonly p99_ms: number;
  readonly max_ms: number;
  /** The same in multiples of the dead time-out of trainers. */
  readonly p50_td: number;
  readonly p90_td: number;
  readonly p99_td: number;
  readonly max_td: number;
}

/** Measures every fault that was done. */
export function measureRecoveries(
  injections: readonly Injection[],
  events: readonly HeardEvent[],
): readonly Recovery[] {
  return injections.flatMap((injection) => {
    if (injection.id === null) return [];
    const times = timesOf(injection, events, windowEnd(injection, injections));
    const since = (atMs: number | null): number | null => (atMs === null ? null : atMs - injection.injectedAtMs);
    const kind = `${injection.kind}.${injection.target.role}`;
    const { detectedAtMs, recoveredAtMs, isLoss } = times;
    return [{ n: injection.n, kind, detectMs: since(detectedAtMs), recoverMs: since(recoveredAtMs), isLoss }];
  });
}

/** Order statistics by kind of fault of what had to recover; `deadAfterMs` is the unit of the multiples. */
export function spreadsOf(
  recoveries: readonly Recovery[],
  deadAfterMs: number,
  timeOf: (recovery: Recovery) => number | null,
): Readonly<Record<string, Spread>> {
  const byKind = new Map<string, number[]>();
  for (const recovery of recoveries) {
    const time = timeOf(recovery);
    if (time !== null) byKind.set(recovery.kind, [...(byKind.get(recovery.kind) ?? []), time]);
  }
  return Object.fromEntries(
    [...byKind].sort(([a], [b]) => a.localeCompare(b)).map(([kind, times]) => [kind, spreadOf(times, deadAfterMs)]),
  );
}

function spreadOf(times: readonly number[], deadAfterMs: number): Spread {
  const sorted = [...times].sort((a, b) => a - b);
  // The nearest rank: a time that was measured, never one between two.
  const at = (share: number): number => Math.round(sorted[Math.ceil(share * sorted.length) - 1] ?? 0);
  const [p50_ms, p90_ms, p99_ms, max_ms] = [at(0.5), at(0.9), at(0.99), at(1)];
  const td = (ms: number): number => Math.round((ms / deadAfterMs) * 100) / 100;
  const multiples = { p50_td: td(p50_ms), p90_td: td(p90_ms), p99_td: td(p99_ms), max_td: td(max_ms) };
  return { n: sorted.length, p50_ms, p90_ms, p99_ms, max_ms, ...multiples };
}

interface Times {
  readonly detectedAtMs: number | null;
  readonly recoveredAtMs: number | null;
  readonly isLoss: boolean;
}

/** What belongs to a fault ends where the next one hits the same process; wall ms, infinite when none does. Pure. */
export function windowEnd(injection: Injection, all: readonly Injection[]): number {
  const isHit = ({ kind, id }: Injection): boolean =>
    id === injection.id || kind === "node" || (kind === "rack" && injection.target.role === "policy");
  const next = all.find((other) => other.n > injection.n && isHit(other));
  return next?.injectedAtMs ?? Number.POSITIVE_INFINITY;
}

function timesOf(injection: Injection, events: readonly HeardEvent[], endMs: number): Times {
  const { injectedAtMs, target } = injection;
  const later = events.filter(({ atMs }) => atMs >= injectedAtMs);
  const firstAfter = (kind: HeardEvent["kind"], atMs: number): number | null =>
    later.find((event) => event.kind === kind && event.atMs >= atMs)?.atMs ?? null;
  // Nothing is said without the broker: the next thing said is that it is back.
  if (target.role === "broker")
    return { detectedAtMs: null, recoveredAtMs: firstAfter("step.committed", injectedAtMs), isLoss: true };
  if (target.role === "controller")
    return {
      detectedAtMs: null,
      recoveredAtMs: within(firstAfter("job.started", injectedAtMs), injection),
      isLoss: false,
    };
  if (target.role === "node" || target.role === "host" || injection.kind === "data") {
    const trouble = later.find(({ kind, atMs }) => isTrouble(kind) && within(atMs, injection) !== null);
    const detectedAtMs = trouble?.atMs ?? null;
    const worst = later.find(({ kind, atMs }) => isLoss(kind) && within(atMs, injection) !== null);
    const recoveredAtMs = worst ? firstAfter("step.committed", worst.atMs) : null;
    return { detectedAtMs, recoveredAtMs, isLoss: worst !== undefined };
  }
  const own = later.filter((event) => event.atMs < endMs && isAbout(event, injection));
  const died = own.find(({ kind }) => kind === "member.died");
  const detectedAtMs = own[0]?.atMs ?? null;
  if (!died) return { detectedAtMs, recoveredAtMs: null, isLoss: false };
  return { detectedAtMs, recoveredAtMs: afterDeath(injection, later, died.atMs), isLoss: true };
}

/** When the job was through with the death of a replica. */
function afterDeath(injection: Injection, later: readonly HeardEvent[], diedAtMs: number): number | null {
  const { target, id } = injection;
  if (target.role === "rollout") return resumedAt(injection, later, diedAtMs);
  const isBack = ({ kind, body }: HeardEvent): boolean =>
    target.role === "policy" ? kind === "step.committed" : kind === "member.joined" && body.id === id;
  return later.find((event) => event.atMs >= diedAtMs && isBack(event))?.atMs ?? null;
}

/** What comes later than this after a fault is over has another cause. */
const causeMs = 20_000;

function within(atMs: number | null, { injectedAtMs, lastsMs }: Injection): number | null {
  return atMs !== null && atMs <= injectedAtMs + lastsMs + causeMs ? atMs : null;
}

/** Something that an outsider sees go wrong. */
function isTrouble(kind: HeardEvent["kind"]): boolean {
  return kind === "member.suspected" || isLoss(kind);
}

/** Something after which the job has to recover. */
function isLoss(kind: HeardEvent["kind"]): boolean {
  return kind === "member.died" || kind === "step.retried";
}

function isAbout({ kind, body }: HeardEvent, { id, kind: fault }: Injection): boolean {
  if (kind !== "member.died" && kind !== "member.suspected") return false;
  return fault === "rack" ? body.role === "policy" : body.id === id;
}

/** When the work of a sampler had another holder, or was done; at once when it had none. */
function resumedAt({ id }: Injection, later: readonly HeardEvent[], diedAtMs: number): number | null {
  const open = new Set<string>();
  let at: number | null = diedAtMs;
  // The controller says a death and what it released in one breath.
  for (const { kind, body, atMs } of later) {
    if (atMs < diedAtMs) continue;
    if (kind === "groups.released" && body.holder === id && atMs < diedAtMs + 1_000) {
      for (const item of body.items) open.add(item);
      at = open.size > 0 ? null : at;
    } else if (open.size > 0 && (kind === "groups.resumed" || kind === "step.committed")) {
      for (const item of kind === "groups.resumed" ? body.items : body.groups) open.delete(item);
      if (open.size === 0) return atMs;
    } else if (open.size > 0 && kind === "groups.quarantined") {
      open.delete(body.item);
      if (open.size === 0) return atMs;
    } else if (open.size > 0 && kind === "eval.finished") {
      for (const item of open) if (item.startsWith("eval.")) open.delete(item);
      if (open.size === 0) return atMs;
    }
  }
  return at;
}
