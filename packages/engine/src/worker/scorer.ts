/**
 * A worker that scores what others drew, asked in batches. It is started again when it is lost, and whoever shared a request with what ended it is asked
 * again alone: a trajectory that ends the worker costs itself, and none beside it.
 */
import { setImmediate } from "node:timers/promises";
import { hasCode } from "@muster/base";
import type { ModelNeeds } from "@muster/data";
import { errors } from "../errors.ts";
import type { WorkerSelf } from "./description.ts";
import { type OpenWorker, openScorer, type ScorerRole } from "./open-link.ts";
import type { WorkerOptions } from "./options.ts";

/** What a scorer is made with. */
export interface ScorerOptions<Item, Score> {
  readonly role: ScorerRole;
  readonly worker: WorkerOptions;
  readonly needs: ModelNeeds;
  /** Items of one request, at most. */
  readonly batch: number;
  /** Bytes of the worker's region that an item takes, at most. Called once for each. */
  bytesOf(item: Item): number;
  /**
   * Asks for the scores of some items.
   *
   * @returns One for each, in order, or why there is none.
   * @throws what ends the whole request; the worker is lost then, or said that it can not
   */
  ask(worker: OpenWorker<WorkerSelf>, items: readonly Item[], signal: AbortSignal): Promise<readonly (Score | Error)[]>;
}

interface Waiting<Item, Score> {
  readonly item: Item;
  readonly bytes: number;
  readonly resolve: (score: Score) => void;
  readonly reject: (error: unknown) => void;
  /** It was in a request that its worker did not survive. */
  isAlone: boolean;
  isSettled: boolean;
}

/** How often those who wait hear that a worker is being started. */
const startingEveryMs = 1_000;

/** Asks one worker at a time, which takes one request at a time. */
export class Scorer<Item, Score> {
  readonly #options: ScorerOptions<Item, Score>;
  readonly #queue: Waiting<Item, Score>[] = [];
  #open: Promise<OpenWorker<WorkerSelf>> | null = null;
  #pumping: Promise<void> | null = null;
  #current: { readonly batch: readonly Waiting<Item, Score>[]; readonly stop: AbortController } | null = null;
  #isClosed = false;
  readonly #starting = new Set<() => void>();

  private constructor(options: ScorerOptions<Item, Score>) {
    this.#options = options;
  }

  /** Starts the worker, so that one that can not begin is known before anything is drawn. @throws as `openScorer` */
  static async open<Item, Score>(options: ScorerOptions<Item, Score>): Promise<Scorer<Item, Score>> {
    const scorer = new Scorer(options);
    await scorer.#worker();
    return scorer;
  }

  /** Scores one item, in one request with those that wait beside it. @throws why there is no score; the reason of `signal` */
  async score(item: Item, signal: AbortSignal): Promise<Score> {
    signal.throwIfAborted();
    if (this.#isClosed) throw errors.EngineClosed({ operation: "score" });
    const bytes = this.#options.bytesOf(item);
    return await new Promise<Score>((resolve, reject) => {
      const leave = (): void => this.#settle(waiting, () => reject(signal.reason));
      const whenOver = (run: () => void): void => {
        signal.removeEventListener("abort", leave);
        run();
      };
      const waiting: Waiting<Item, Score> = {
        ...{ item, bytes, isAlone: false, isSettled: false },
        resolve: (score) => whenOver(() => resolve(score)),
        reject: (error) => whenOver(() => reject(error)),
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#queue.push(waiting);
      this.#pumping ??= this.#pump().finally(() => {
        this.#pumping = null;
      });
    });
  }

  /** Calls `run` every second while a worker starts, which takes no longer than its times allow. @returns Stops it. */
  onStarting(run: () => void): () => void {
    this.#starting.add(run);
    return () => void this.#starting.delete(run);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const error = errors.EngineClosed({ operation: "score" });
    for (const waiting of this.#queue.splice(0)) this.#settle(waiting, () => waiting.reject(error));
    for (const waiting of this.#current?.batch ?? []) this.#settle(waiting, () => waiting.reject(error));
    const worker = await this.#open?.catch(() => null);
    if (worker) await this.#end(worker);
    await this.#pumping;
  }

  async #pump(): Promise<void> {
    // Those that are drawn together are asked together.
    await setImmediate();
    for (let batch = this.#next(); batch.length > 0; batch = this.#next()) await this.#ask(batch);
  }

  /** What goes into the next request: in the order in which it came, as far as there is room. */
  #next(): readonly Waiting<Item, Score>[] {
    const { batch, worker } = this.#options;
    const next: Waiting<Item, Score>[] = [];
    let bytes = 0;
    while (this.#queue.length > 0 && next.length < batch) {
      const [first] = this.#queue as [Waiting<Item, Score>];
      if (first.isSettled) {
        this.#queue.shift();
        continue;
      }
      bytes += first.bytes;
      const isFull = bytes > worker.arenaBytes || first.isAlone || next[0]?.isAlone;
      if (next.length > 0 && isFull) break;
      next.push(first);
      this.#queue.shift();
    }
    return next;
  }

  async #ask(batch: readonly Waiting<Item, Score>[]): Promise<void> {
    const stop = new AbortController();
    this.#current = { batch, stop };
    let worker: OpenWorker<WorkerSelf> | null = null;
    let startedMs = 0;
    try {
      worker = await this.#worker();
      startedMs = performance.now();
      const items = batch.map(({ item }) => item);
      const scores = await this.#options.ask(worker, items, stop.signal);
      batch.forEach((waiting, i) => {
        const score = scores[i] as Score | Error;
        this.#settle(waiting, () => (score instanceof Error ? waiting.reject(score) : waiting.resolve(score)));
      });
    } catch (error) {
      if (worker) {
        const tookMs = performance.now() - startedMs;
        if (worker.link.fault) await this.#end(worker);
        this.#failed(batch, error, tookMs);
      } else {
        // One that can not begin is not started again for each of those that wait for it.
        for (const waiting of [...batch, ...this.#queue.splice(0)]) this.#settle(waiting, () => waiting.reject(error));
      }
    } finally {
      this.#current = null;
    }
  }

  /** A request that has no answer: of several, each is asked again alone. */
  #failed(batch: readonly Waiting<Item, Score>[], error: unknown, tookMs: number): void {
    const open = batch.filter(({ isSettled }) => !isSettled);
    if (batch.length > 1 && isOfTheRequest(error)) {
      for (const waiting of open) waiting.isAlone = true;
      this.#queue.unshift(...open);
      return;
    }
    const { callMs } = this.#options.worker.times;
    const isLate = hasCode(error, "MUSTER_ERR_WORKER_LOST") && tookMs >= callMs;
    const what = `a request to the ${this.#options.role} worker`;
    const cause = isLate ? errors.TrajectoryTimeout({ what, timeoutMs: callMs }, error) : error;
    for (const waiting of open) this.#settle(waiting, () => waiting.reject(cause));
  }

  /** Nobody waits for what is settled; a request that nobody waits for is cancelled. */
  #settle(waiting: Waiting<Item, Score>, run: () => void): void {
    if (waiting.isSettled) return;
    waiting.isSettled = true;
    run();
    if (this.#current?.batch.every(({ isSettled }) => isSettled))
      this.#current.stop.abort(new Error("nobody waits for these scores any more"));
  }

  /** The running worker, or the next one. */
  async #worker(): Promise<OpenWorker<WorkerSelf>> {
    const running = await this.#open;
    if (running?.link.fault) await this.#end(running);
    // Who closes looks for a worker to end once, and may have done so meanwhile.
    if (this.#isClosed) throw errors.EngineClosed({ operation: "score" });
    this.#open ??= this.#start();
    try {
      return await this.#open;
    } catch (error) {
      this.#open = null;
      throw error;
    }
  }

  async #start(): Promise<OpenWorker<WorkerSelf>> {
    const { role, worker, needs } = this.#options;
    const telling = setInterval(() => {
      for (const run of this.#starting) run();
    }, startingEveryMs).unref();
    try {
      return await openScorer(role, worker, needs);
    } finally {
      clearInterval(telling);
    }
  }

  async #end({ link, regions }: OpenWorker<WorkerSelf>): Promise<void> {
    this.#open = null;
    await link.close();
    await regions.close();
  }
}

/** Of what was asked: another request may go well. */
function isOfTheRequest(error: unknown): boolean {
  return ["WORKER_LOST", "WORKER_PROTOCOL", "WORKER_CALL", "WORKER_ARENA"].some((word) =>
    hasCode(error, `MUSTER_ERR_${word}`),
  );
}
