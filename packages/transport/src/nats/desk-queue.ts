/**
 * The row before the desk. A few questions are worked on at a time. Who would wait for longer than for an answer is told when to ask again and
 * keeps its place: the work is done in the order of first asking, and its outcome waits for who asked.
 */
import { Allowance } from "@muster/base";

/** Bounds of a row. */
export interface DeskQueueOptions {
  /** Questions that are worked on at a time. */
  readonly atOnce: number;
  /** Who has to wait for longer is told to ask again. */
  readonly waitMaxMs: number;
  /** Questions that wait. */
  readonly waitingMax: number;
  /** Questions that are worked on at first, and each second after that. */
  readonly burst: number;
  readonly perSecond: number;
}

interface Waiting<T> {
  readonly work: () => Promise<T>;
  /** How many had asked before. */
  readonly number: number;
  readonly outcome: Promise<T>;
  readonly settle: (outcome: T) => void;
  /** Whoever asked was told to ask again. */
  isKept: boolean;
}

/** Time that an answer is thought to take before any was given, and the weight of the newest one. */
const firstMs = 10;
const newestShare = 0.05;
const retryMs = { least: 100, most: 5_000 };
/** An outcome that nobody asks for goes after this. */
const keptMs = 60_000;

export class DeskQueue<T> {
  readonly #options: DeskQueueOptions;
  readonly #left: Allowance;
  readonly #byKey = new Map<string, Waiting<T>>();
  readonly #row: Waiting<T>[] = [];
  readonly #kept = new Map<string, { readonly outcome: T; readonly untilMs: number }>();
  #running = 0;
  #asked = 0;
  #done = 0;
  #meanMs = firstMs;

  constructor(options: DeskQueueOptions) {
    this.#options = options;
    this.#left = new Allowance(options);
  }

  /** Asks for the outcome of `work`, which never rejects. The same `key` is the same question. @returns It, or when to ask again. */
  ask(nowMs: number, key: string, work: () => Promise<T>): Promise<T> | { readonly retryMs: number } {
    const kept = this.#kept.get(key);
    if (kept && this.#kept.delete(key)) return Promise.resolve(kept.outcome);
    const known = this.#byKey.get(key);
    if (known) return this.#putOff(known);
    if (this.#byKey.size >= this.#options.waitingMax || !this.#left.take(nowMs)) return { retryMs: retryMs.most };
    let settle: (outcome: T) => void = () => {};
    const outcome = new Promise<T>((resolve) => {
      settle = resolve;
    });
    const waiting = { work, number: this.#asked++, outcome, settle, isKept: false };
    this.#byKey.set(key, waiting);
    this.#row.push(waiting);
    void outcome.then((value) => this.#end(key, waiting, value));
    this.#work();
    return this.#waitMs(waiting) > this.#options.waitMaxMs ? this.#putOff(waiting) : outcome;
  }

  #putOff(waiting: Waiting<T>): { readonly retryMs: number } {
    waiting.isKept = true;
    return { retryMs: Math.ceil(Math.min(Math.max(this.#waitMs(waiting), retryMs.least), retryMs.most)) };
  }

  #waitMs({ number }: Waiting<T>): number {
    return ((number - this.#done) * this.#meanMs) / this.#options.atOnce;
  }

  #end(key: string, { isKept }: Waiting<T>, outcome: T): void {
    const nowMs = performance.now();
    this.#byKey.delete(key);
    for (const [old, { untilMs }] of this.#kept) {
      if (untilMs > nowMs) break;
      this.#kept.delete(old);
    }
    if (isKept) this.#kept.set(key, { outcome, untilMs: nowMs + keptMs });
  }

  #work(): void {
    while (this.#running < this.#options.atOnce) {
      const next = this.#row.shift();
      if (!next) return;
      this.#running += 1;
      const fromMs = performance.now();
      void next.work().then((outcome) => {
        this.#running -= 1;
        this.#done += 1;
        this.#meanMs += newestShare * (performance.now() - fromMs - this.#meanMs);
        next.settle(outcome);
        this.#work();
      });
    }
  }
}
