/** Where requests wait for a worker: in order, in a line of bounded length, for a bounded time. */
import type { Clock } from "@muster/base";
import { sayFence } from "../core/fence.ts";
import type { Need, Pool, Refusal, Ticket } from "../core/pool.ts";
import { Refused } from "../core/reply.ts";
import type { RequestVerdict, Worker } from "../core/worker.ts";

/** What the line is made of. */
export interface AdmissionOptions {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly queueMax: number;
  readonly queueTimeoutMs: number;
  /** Requests at workers at once, of all together. */
  readonly activeMax: number;
  /** Hears of each worker that a request changed. */
  readonly changed: (before: Worker, after: Worker) => void;
}

interface Waiter {
  readonly need: Need;
  readonly resolve: (ticket: Ticket) => void;
  readonly reject: (error: Error) => void;
  readonly cancel: () => void;
  why: Refusal;
}

/** The line in front of the pool. */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #waiters = new Set<Waiter>();

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  /** A worker for a request, if one is free; `null` when it has to wait: {@link acquire}. */
  takeNow(need: Need): Ticket | null {
    const taken = this.#take(need);
    return typeof taken === "string" ? null : taken;
  }

  /**
   * A worker for a request.
   *
   * @throws Refused with 429 when the line is full, with 503 when nobody came free in time; the signal's reason.
   */
  async acquire(need: Need, signal: AbortSignal): Promise<Ticket> {
    signal.throwIfAborted();
    const { queueMax } = this.#options;
    // Who comes goes behind those who wait, unless they wait for something else.
    const taken = this.#take(need);
    if (typeof taken !== "string") return taken;
    if (this.#waiters.size >= queueMax)
      throw new Refused({
        ...{ status: 429, code: "queue_full", retryAfter: 1 },
        message: `${queueMax} requests wait for an engine already; try again in a second`,
      });
    return await this.#wait(need, taken, signal);
  }

  /** A request has left its worker. */
  release(ticket: Ticket, verdict: RequestVerdict): void {
    const { pool, clock } = this.#options;
    this.#tell(pool.end(ticket, verdict, clock.now()));
    this.pump();
  }

  /** It came out what a request that has left its worker before says about it. */
  judge(ticket: Ticket, verdict: RequestVerdict): void {
    const { pool, clock } = this.#options;
    this.#tell(pool.judge(ticket, verdict, clock.now()));
  }

  #tell(change: readonly [Worker, Worker] | null): void {
    if (change && change[0] !== change[1]) this.#options.changed(...change);
  }

  /** Gives to those who wait whatever has come free. */
  pump(): void {
    const hopeless = new Set<string>();
    for (const waiter of this.#waiters) {
      const { fence, tried, stickyKey, resumes = false } = waiter.need;
      const kind = `${fence.exact}|${fence.min}|${fence.maxStaleness}|${tried.size}|${stickyKey === null}|${resumes}`;
      if (hopeless.has(kind)) continue;
      const taken = this.#take(waiter.need);
      if (typeof taken === "string") {
        waiter.why = taken;
        // Of one that needs an engine that resumes it means only that none of those serves.
        if (!resumes && (taken === "none serves" || taken === "no workers")) return;
        hopeless.add(kind);
      } else {
        this.#leave(waiter);
        waiter.resolve(taken);
      }
    }
  }

  /** Ends the waiting of everybody. */
  refuseAll(refused: Refused): void {
    for (const waiter of [...this.#waiters]) {
      this.#leave(waiter);
      waiter.reject(refused);
    }
  }

  #take(need: Need): Ticket | Refusal {
    const { pool, clock, activeMax } = this.#options;
    return pool.active >= activeMax ? "busy" : pool.take(need, clock.now());
  }

  #leave(waiter: Waiter): void {
    this.#waiters.delete(waiter);
    waiter.cancel();
  }

  #wait(need: Need, why: Refusal, signal: AbortSignal): Promise<Ticket> {
    const { clock, queueTimeoutMs } = this.#options;
    return new Promise((resolve, reject) => {
      const gone = (): void => {
        this.#leave(waiter);
        reject(signal.reason instanceof Error ? signal.reason : new Error("the client has gone"));
      };
      const cancelLate = clock.after(queueTimeoutMs, () => {
        this.#leave(waiter);
        reject(this.#late(waiter));
      });
      const cancel = (): void => {
        cancelLate();
        signal.removeEventListener("abort", gone);
      };
      const waiter: Waiter = { need, resolve, reject, cancel, why };
      signal.addEventListener("abort", gone, { once: true });
      this.#waiters.add(waiter);
    });
  }

  #late({ need, why }: Waiter): Refused {
    const { pool, queueTimeoutMs } = this.#options;
    const newest = pool.newest === null ? "no engine says a numbered version" : `the newest is ${pool.newest}`;
    const messages: Readonly<Record<Refusal, string>> = {
      "no workers": "the router has no engines; add one with POST /add_worker?url=http://HOST:PORT",
      "none serves": "no engine serves: GET /workers says why of each",
      fence: `no engine that serves has ${sayFence(need.fence)}; ${newest}`,
      busy: `all engines were busy for ${queueTimeoutMs} ms`,
    };
    const code = why === "fence" ? "fence_unmet" : "no_worker";
    return new Refused({ status: 503, code, message: messages[why], retryAfter: why === "busy" ? 1 : 5 });
  }
}
