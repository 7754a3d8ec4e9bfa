/** Checks each worker at its interval, all beside each other, so that one that hangs delays nobody's check. */
import { type Clock, type Logger, messageOf } from "@muster/base";
import type { Agent } from "undici";
import type { Pool } from "../core/pool.ts";
import type { Worker } from "../core/worker.ts";
import { type KnownPaths, probe } from "./probe.ts";

/** What the loop works with. */
export interface HealthLoopOptions {
  readonly pool: Pool;
  readonly agent: Agent;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly intervalMs: number;
  readonly timeoutMs: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Hears of every check; the worker as it was and as it is. */
  readonly checked: (before: Worker, after: Worker, ok: boolean) => void;
}

/** A worker that starts or gets weights is looked at more often: it may be there at any moment. */
const comingMs = 1_000;

interface Watch {
  readonly paths: KnownPaths;
  cancel: () => void;
  running: Promise<void> | null;
}

/** The checks of all workers. */
export class HealthLoop {
  readonly #options: HealthLoopOptions;
  readonly #watches = new Map<string, Watch>();
  #isClosed = false;

  constructor(options: HealthLoopOptions) {
    this.#options = options;
  }

  /** Checks this worker now and from now on; it has just been added, also when it was there before. */
  watch(id: string): void {
    this.forget(id);
    this.#watches.set(id, { paths: { health: null, version: null }, cancel: () => {}, running: null });
    void this.checkNow(id);
  }

  forget(id: string): void {
    this.#watches.get(id)?.cancel();
    this.#watches.delete(id);
  }

  /** Checks a worker out of turn; joins a check that runs already. */
  checkNow(id: string): Promise<void> {
    const watch = this.#watches.get(id);
    if (!watch || this.#isClosed) return Promise.resolve();
    watch.cancel();
    watch.running ??= this.#check(id, watch).finally(() => {
      watch.running = null;
      this.#schedule(id, watch);
    });
    return watch.running;
  }

  close(): void {
    this.#isClosed = true;
    for (const id of [...this.#watches.keys()]) this.forget(id);
  }

  async #check(id: string, watch: Watch): Promise<void> {
    const { pool, agent, clock, logger, timeoutMs, headers, checked } = this.#options;
    const worker = pool.worker(id);
    if (!worker) return;
    const { paths } = watch;
    try {
      const result = await probe({ agent, clock, origin: worker.url, headers, timeoutMs, paths });
      // It was removed meanwhile: what was added since under this name has checks of its own.
      if (this.#watches.get(id) !== watch) return;
      if (!result.ok) Object.assign(paths, { health: null, version: null });
      const change = pool.probed(id, worker.life, result, clock.now());
      if (change) checked(change[0], change[1], result.ok);
    } catch (error) {
      logger.error({ worker: worker.url, error, reason: messageOf(error) }, "a check of a worker failed by itself");
    }
  }

  #schedule(id: string, watch: Watch): void {
    if (this.#isClosed || this.#watches.get(id) !== watch) return;
    const worker = this.#options.pool.worker(id);
    if (!worker) return void this.forget(id);
    const { intervalMs, clock } = this.#options;
    const isComing = worker.state === "starting" || worker.state === "stale";
    const afterMs = isComing ? Math.min(intervalMs, comingMs) : intervalMs;
    watch.cancel = clock.after(afterMs, () => void this.checkNow(id));
  }
}
