/**
 * The workers, and who of them gets a request: the least active one that qualifies, the least recently chosen one of equals. A machine without I/O
 * and without a clock: whoever holds it passes in what happened and when.
 */
import { type Fence, numberOfVersion, satisfies, versionLeadMax } from "./fence.ts";
import { StickyTable } from "./sticky.ts";
import {
  afterProbe,
  afterRequest,
  type Current,
  type HealthPolicy,
  isServing,
  type ProbeResult,
  type RequestVerdict,
  unheld,
  type Worker,
} from "./worker.ts";

/** The rules of a pool. */
export interface PoolPolicy {
  readonly health: HealthPolicy;
  readonly workersMax: number;
  /** Requests at once that one worker is given. */
  readonly activeMax: number;
  readonly stickyKeysMax: number;
  readonly stickyIdleMs: number;
}

/** What a request asks of its worker. */
export interface Need {
  readonly fence: Fence;
  readonly stickyKey: string | null;
  /** Ids of workers that failed this request already. They get it again only when nobody else is there. */
  readonly tried: ReadonlySet<string>;
  /** Only a worker that goes on with a response which another one began. */
  readonly resumes?: boolean;
}

/** A request's place at a worker. Give it back with {@link Pool.end}, once. */
export interface Ticket {
  readonly workerId: string;
  readonly url: string;
  readonly life: number;
  /** Version that the worker said when the request was given to it. */
  readonly version: string | null;
  readonly resumes: boolean;
  readonly sticky: "none" | "hit" | "new" | "moved";
}

/** Why nobody gets a request now. */
export type Refusal = "no workers" | "none serves" | "fence" | "busy";

/** A worker and how much it does. */
export interface WorkerView extends Worker {
  readonly active: number;
}

interface Row {
  worker: Worker;
  active: number;
  /** When it was chosen last, in turns. */
  turn: number;
}

/** The table of workers. */
export class Pool {
  readonly #policy: PoolPolicy;
  readonly #rows = new Map<string, Row>();
  readonly #open = new Map<Ticket, Row>();
  /** Rows of tickets that were given back and may be judged later: whatever came out was not an answer. */
  readonly #rowOf = new WeakMap<Ticket, Row>();
  readonly #sticky: StickyTable;
  #turns = 0;
  /** Newest numbered version, and label, that was ever seen at a worker that serves. */
  #newest: number | null = null;
  #label: string | null = null;

  constructor(policy: PoolPolicy) {
    this.#policy = policy;
    this.#sticky = new StickyTable({ keysMax: policy.stickyKeysMax, idleMs: policy.stickyIdleMs });
  }

  /** Number of the newest version that was seen, `null` without any. */
  get newest(): number | null {
    return this.#newest;
  }

  get stickyKeys(): number {
    return this.#sticky.size;
  }

  /** Requests that are at workers. */
  get active(): number {
    return this.#open.size;
  }

  workers(): readonly WorkerView[] {
    return [...this.#rows.values()].map(({ worker, active }) => ({ ...worker, active }));
  }

  worker(id: string): WorkerView | null {
    const row = this.#rows.get(id);
    return row ? { ...row.worker, active: row.active } : null;
  }

  /**
   * Adds a worker. One that is there already begins another life: whoever adds it again says that it was restarted.
   *
   * @returns False when the pool is full.
   */
  add(id: string, url: string, nowMs: number, about: Partial<Pick<Worker, "labels" | "model">> = {}): boolean {
    const before = this.#rows.get(id);
    if (!before && this.#rows.size >= this.#policy.workersMax) return false;
    const worker: Worker = {
      ...{ id, url, life: (before?.worker.life ?? 0) + 1, state: "starting", why: "it was not checked yet" },
      ...{ probeFailures: 0, ...unheld, requestFailedAtMs: nowMs, addedMs: nowMs },
      ...{ version: null, incarnation: null, resumes: about.labels?.resumes === "true" },
      ...{ model: about.model ?? null, labels: about.labels ?? {} },
    };
    if (before) before.worker = worker;
    else this.#rows.set(id, { worker, active: 0, turn: 0 });
    return true;
  }

  /** Removes a worker; requests that are there end as they end. @returns False when there is none of this name. */
  remove(id: string): boolean {
    return this.#rows.delete(id);
  }

  /** Somebody who knows says which version is current, also when that is an older one. */
  setCurrent(version: string): void {
    this.#newest = numberOfVersion(version);
    this.#label = this.#newest === null ? version : null;
  }

  /** A check of this life has ended. @returns The worker before and after, `null` when it is of an earlier life or gone. */
  probed(id: string, life: number, result: ProbeResult, nowMs: number): readonly [Worker, Worker] | null {
    const row = this.#rows.get(id);
    if (!row || row.worker.life !== life) return null;
    const before = row.worker;
    row.worker = afterProbe(before, result, { nowMs, policy: this.#policy.health, current: this.#current(id) });
    if (result.ok && isServing(row.worker)) this.#saw(row.worker);
    return [before, row.worker];
  }

  /** Chooses a worker and counts the request there. */
  take(need: Need, nowMs: number): Ticket | Refusal {
    const { fence, stickyKey, tried, resumes: mustResume = false } = need;
    const isCandidate = ({ worker }: Row): boolean => isServing(worker) && (!mustResume || worker.resumes);
    const isFitting = ({ worker }: Row): boolean => satisfies(worker.version, fence, this.#newest);
    const isFree = ({ active }: Row): boolean => active < this.#policy.activeMax;
    let [candidates, fitting] = [0, 0];
    let best: Row | null = null;
    for (const row of this.#rows.values()) {
      if (!isCandidate(row)) continue;
      candidates += 1;
      if (!isFitting(row)) continue;
      fitting += 1;
      if (isFree(row) && (best === null || isBetter(row, best, tried))) best = row;
    }
    if (candidates === 0) return this.#rows.size === 0 ? "no workers" : "none serves";
    if (fitting === 0) return "fence";
    const pinned = stickyKey === null ? null : this.#sticky.workerOf(stickyKey, nowMs);
    const held = pinned === null || tried.has(pinned) ? null : (this.#rows.get(pinned) ?? null);
    const own = held && isCandidate(held) && isFitting(held) ? held : null;
    const row = own && isFree(own) ? own : best;
    if (!row) return "busy";
    // A key whose worker is only busy stays there.
    if (stickyKey !== null && (!own || own === row)) this.#sticky.pin(stickyKey, row.worker.id, nowMs);
    const { id, url, life, version, resumes } = row.worker;
    const sticky = stickyKey === null ? "none" : row === own ? "hit" : pinned === null ? "new" : "moved";
    const ticket: Ticket = { workerId: id, url, life, version, resumes, sticky };
    row.active += 1;
    row.turn = ++this.#turns;
    this.#open.set(ticket, row);
    return ticket;
  }

  /** A request has left its worker, in whatever way. A second time changes nothing. @returns The worker before and after. */
  end(ticket: Ticket, verdict: RequestVerdict, nowMs: number): readonly [Worker, Worker] | null {
    const row = this.#open.get(ticket);
    if (!row) return null;
    this.#open.delete(ticket);
    if (verdict.kind !== "served") this.#rowOf.set(ticket, row);
    row.active -= 1;
    return this.#judge(row, ticket, verdict, nowMs);
  }

  /** What came out about a request later: that it failed at this worker and another one answered it. @returns The worker before and after. */
  judge(ticket: Ticket, verdict: RequestVerdict, nowMs: number): readonly [Worker, Worker] | null {
    const row = this.#rowOf.get(ticket);
    return row ? this.#judge(row, ticket, verdict, nowMs) : null;
  }

  #judge(row: Row, ticket: Ticket, verdict: RequestVerdict, nowMs: number): readonly [Worker, Worker] | null {
    const before = row.worker;
    // Of a worker that was removed the row is gone; one of the same name that was added since is another.
    if (before.life !== ticket.life || this.#rows.get(ticket.workerId) !== row) return null;
    row.worker = this.#spared(before, afterRequest(before, verdict, nowMs, this.#policy.health), verdict);
    if (verdict.kind === "served" && isServing(row.worker)) this.#saw(row.worker);
    return [before, row.worker];
  }

  /**
   * Requests may fail because of what they ask. As long as an engine passes its checks, failed requests take at most half of the engines out; the
   * others only become suspects.
   */
  #spared(before: Worker, after: Worker, verdict: RequestVerdict): Worker {
    const isGone = verdict.kind === "failed" && verdict.refused;
    if (isGone || before.state === after.state || after.state !== "quarantined") return after;
    const out = [...this.#rows.values()].filter(({ worker }) => !isServing(worker)).length;
    if (2 * (out + 1) <= this.#rows.size) return after;
    return {
      ...after,
      state: "suspect",
      why: `requests fail here, and half of the engines do not serve: ${after.why}`,
    };
  }

  /** What current is for this worker: what others that serve hold, and never less than what was seen before. */
  #current(id: string): Current {
    const newest = this.#newest;
    if (newest !== null)
      return {
        text: `${newest}`,
        isCurrent: (version) => {
          const number = numberOfVersion(version) ?? -1;
          return number >= newest && this.#isBelieved(id, number);
        },
      };
    const others = [...this.#rows.values()].filter(({ worker }) => worker.id !== id && isServing(worker));
    const labels = new Set(others.flatMap(({ worker }) => worker.version ?? []));
    if (labels.size === 0 && this.#label !== null) labels.add(this.#label);
    const text = labels.size === 0 ? "not known" : [...labels].join(" or ");
    return {
      text,
      isCurrent: (version) => labels.size === 0 || labels.has(version) || numberOfVersion(version) !== null,
    };
  }

  #saw({ id, version }: Worker): void {
    const number = numberOfVersion(version);
    if (number === null) this.#label = version ?? this.#label;
    else if (this.#isBelieved(id, number)) this.#newest = Math.max(number, this.#newest ?? number);
  }

  /** One engine that is far ahead of all others must not make them stale: a second one has to say so, too, unless it serves alone. */
  #isBelieved(id: string, number: number): boolean {
    if (this.#newest === null || number <= this.#newest + versionLeadMax) return true;
    const others = [...this.#rows.values()].map(({ worker }) => worker).filter((worker) => worker.id !== id);
    const says = (version: string | null): boolean =>
      Math.abs((numberOfVersion(version) ?? -1) - number) <= versionLeadMax;
    return !others.some(isServing) || others.some(({ state, version }) => state !== "quarantined" && says(version));
  }
}

/** Better is one that did not fail this request, then healthy, then less active, then less recently chosen. */
function isBetter(a: Row, b: Row, tried: ReadonlySet<string>): boolean {
  const rank = ({ worker }: Row): number => (tried.has(worker.id) ? 2 : 0) + (worker.state === "suspect" ? 1 : 0);
  return rank(a) - rank(b) < 0 || (rank(a) === rank(b) && (a.active - b.active || a.turn - b.turn) < 0);
}
