/**
 * A worker, which is one engine behind one address, and how its health changes with what is seen of it. Pure: who holds the table of workers
 * passes the time in.
 *
 *     starting ─► healthy ⇄ suspect ─► quarantined ─► stale ─► healthy
 *
 * A quarantined or stale worker serves again only when it is known to hold current weights. One that fails requests which another one answers may
 * pass its checks all the while, so they do not bring it back: it is held for an interval, and for twice as long each time that it fails the next
 * requests, too.
 */

/** Where a worker stands. `healthy` and `suspect` ones are given requests, suspect ones when no healthy one will do. */
export type WorkerState = "starting" | "healthy" | "suspect" | "quarantined" | "stale";

/** All states, for metrics. */
export const workerStates = ["starting", "healthy", "suspect", "quarantined", "stale"] as const;

/** How often and for how long a worker may fail. */
export interface HealthPolicy {
  /** Failures of a worker this young count for nothing while it has never been healthy. */
  readonly firstWaitMs: number;
  readonly intervalMs: number;
  /** Consecutive failures that put a worker into quarantine. */
  readonly threshold: number;
  /** Workers that do not say their weight version leave quarantine when they answer again. */
  readonly readmitUnverified: boolean;
}

/** How long failed requests keep a worker from being `healthy`, whatever its checks say. */
interface Hold {
  /** The last one, in milliseconds; 0 when it has answered a request since. */
  readonly holdMs: number;
  readonly heldUntilMs: number;
}

/** One engine. */
export interface Worker extends Hold {
  readonly id: string;
  readonly url: string;
  /** Counts the processes seen behind the address. What an earlier one still says changes nothing. */
  readonly life: number;
  readonly state: WorkerState;
  /** Why it is in this state, one sentence. */
  readonly why: string;
  /** Consecutive failed checks. */
  readonly probeFailures: number;
  /** Consecutive failed requests: a wedged engine may pass its checks. */
  readonly requestFailures: number;
  /** When the first of those failed. */
  readonly requestFailedAtMs: number;
  /** Weight version that it said last; `null` when it does not say: unverified. */
  readonly version: string | null;
  /** Of its process, where it says one. */
  readonly incarnation: string | null;
  /** It goes on with a response when it gets prompt and tokens so far as its prompt. */
  readonly resumes: boolean;
  readonly model: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly addedMs: number;
}

/** What a check saw. */
export type ProbeResult =
  | {
      readonly ok: true;
      readonly version: string | null;
      readonly incarnation: string | null;
      readonly resumes: boolean;
      readonly model: string | null;
    }
  | { readonly ok: false; readonly refused: boolean; readonly detail: string };

/** How a request ended, as far as the health of its worker is concerned. */
export type RequestVerdict =
  /** It answered. */
  | { readonly kind: "served"; readonly version: string | null }
  /** It failed, and the fault may be its own. `refused`: nobody listens there any more. */
  | { readonly kind: "failed"; readonly refused: boolean; readonly detail: string }
  /** The client went, or the engine was busy: nobody's fault. */
  | { readonly kind: "neutral" };

/** What the pool knows of the versions of all workers. */
export interface Current {
  /** Whether these weights are as new as those of the others. */
  readonly isCurrent: (version: string) => boolean;
  readonly text: string;
}

/** True for workers that are given requests. */
export function isServing({ state }: Worker): boolean {
  return state === "healthy" || state === "suspect";
}

/** A worker after a check. */
export function afterProbe(
  worker: Worker,
  result: ProbeResult,
  { nowMs, policy, current }: { readonly nowMs: number; readonly policy: HealthPolicy; readonly current: Current },
): Worker {
  if (!result.ok) return afterFailedProbe(worker, result, { nowMs, policy });
  const { version, incarnation, resumes, model } = result;
  const isOther = isOtherProcess(worker, result);
  const life = isOther ? worker.life + 1 : worker.life;
  const seen: Worker = { ...worker, version, incarnation, model: model ?? worker.model, life, probeFailures: 0 };
  const answering = { ...seen, ...(isOther ? unheld : {}), resumes: resumes || worker.labels.resumes === "true" };
  if (!isOther && isHeld(worker, nowMs)) return answering;
  const isTrusted = !isOther && isServing(worker);
  if (isTrusted || (worker.state === "starting" && version === null))
    return { ...answering, state: "healthy", why: "it answers its checks" };
  if (version === null) return withoutVersion(answering, policy);
  if (!current.isCurrent(version))
    return {
      ...answering,
      ...{ state: "stale", requestFailures: failuresBack(answering) },
      why: `it answers with weight version ${version}, and current is ${current.text}`,
    };
  return {
    ...answering,
    ...{ state: "healthy", requestFailures: failuresBack(answering) },
    why: `it answers with current weights, version ${version}`,
  };
}

function withoutVersion(worker: Worker, policy: HealthPolicy): Worker {
  if (policy.readmitUnverified || worker.state === "starting") {
    const requestFailures = failuresBack(worker);
    return { ...worker, state: "healthy", requestFailures, why: "it answers its checks; its weights are not known" };
  }
  return {
    ...worker,
    state: "quarantined",
    why: "it answers again, and does not say its weight version: add it again once it has the right weights",
  };
}

/** What a process begins with that has failed no request. */
export const unheld = { requestFailures: 0, holdMs: 0, heldUntilMs: 0 } as const;

function isHeld({ state, heldUntilMs }: Worker, nowMs: number): boolean {
  return (state === "quarantined" || state === "suspect") && nowMs < heldUntilMs;
}

/** Who comes back from a hold is on trial: the next request that fails takes it out of service again. */
function failuresBack({ holdMs, requestFailures }: Worker): number {
  return holdMs > 0 ? requestFailures : 0;
}

/** Another process has taken the address: it says so, or its weights went back. */
function isOtherProcess(worker: Worker, seen: Extract<ProbeResult, { ok: true }>): boolean {
  if (worker.incarnation !== null && seen.incarnation !== null) return worker.incarnation !== seen.incarnation;
  return isBefore(seen.version, worker.version);
}

function isBefore(version: string | null, than: string | null): boolean {
  return /^\d{1,15}$/.test(version ?? "") && /^\d{1,15}$/.test(than ?? "") && Number(version) < Number(than);
}

function afterFailedProbe(
  worker: Worker,
  { refused, detail }: Extract<ProbeResult, { ok: false }>,
  { nowMs, policy }: { readonly nowMs: number; readonly policy: HealthPolicy },
): Worker {
  const { state, addedMs } = worker;
  if (state === "quarantined") return { ...worker, probeFailures: worker.probeFailures + 1 };
  if (state === "starting" && nowMs - addedMs < policy.firstWaitMs) return { ...worker, why: detail };
  const probeFailures = worker.probeFailures + 1;
  const isLost = (refused && state !== "starting") || probeFailures >= policy.threshold;
  if (isLost) return quarantined({ ...worker, probeFailures }, detail);
  return { ...worker, probeFailures, state: state === "healthy" ? "suspect" : state, why: detail };
}

/** A worker after a request. Requests of an earlier life are the caller's to leave out. */
export function afterRequest(worker: Worker, verdict: RequestVerdict, nowMs: number, policy: HealthPolicy): Worker {
  if (verdict.kind === "neutral") return worker;
  if (verdict.kind === "served") {
    // An answer may have been on its way for longer than a check: it can say that weights are newer, and not that they went back.
    const version = isBefore(worker.version, verdict.version) ? verdict.version : worker.version;
    const isSame = worker.requestFailures === 0 && worker.holdMs === 0 && version === worker.version;
    return isSame ? worker : { ...worker, version, ...unheld };
  }
  if (!isServing(worker)) return worker;
  if (verdict.refused) return quarantined(worker, verdict.detail);
  const isFirst = worker.requestFailures === 0;
  const requestFailedAtMs = isFirst ? nowMs : worker.requestFailedAtMs;
  const requestFailures = worker.requestFailures + 1;
  const failing = { ...worker, requestFailures, requestFailedAtMs };
  if (requestFailures < policy.threshold) return failing;
  // Many requests may fail in one moment for one cause: only failures that last count as an engine that is wedged.
  const lasts = nowMs - requestFailedAtMs >= policy.intervalMs;
  const state = lasts ? "quarantined" : "suspect";
  return { ...failing, state, why: `its requests fail: ${verdict.detail}`, ...holdOf(worker, nowMs, policy) };
}

const holdIntervalsMax = 32;

/** One interval at first, twice as long each time that it fails again afterwards. */
function holdOf({ holdMs, heldUntilMs }: Worker, nowMs: number, { intervalMs }: HealthPolicy): Hold {
  const isHeldStill = nowMs < heldUntilMs;
  const next = isHeldStill ? holdMs : Math.min(2 * holdMs || intervalMs, holdIntervalsMax * intervalMs);
  return { holdMs: next, heldUntilMs: nowMs + next };
}

function quarantined(worker: Worker, detail: string): Worker {
  return { ...worker, state: "quarantined", why: detail };
}
