/** Real time: events come when they are due, and between them whatever comes from outside. */
import { mixSeed, type Random, randomOf } from "@muster/base";
import type { LoopEnd, World } from "./world.ts";

/** The end of a run is also looked for where no event brings it about. */
const lookEveryMs = 20;

/** The time of the machine, from 0 on. */
export class RealWorld implements World {
  readonly seed: number;
  events = 0;
  readonly #startedMs = performance.now();
  readonly #waiting = new Set<() => void>();
  #reject: (error: unknown) => void = () => {};
  #failure: { readonly error: unknown } | null = null;

  constructor(seed: number) {
    this.seed = seed;
  }

  get nowMs(): number {
    return performance.now() - this.#startedMs;
  }

  random(...key: readonly number[]): Random {
    return randomOf(mixSeed(this.seed, ...key));
  }

  after(delayMs: number, run: () => void): () => void {
    const due = (): void => {
      this.#waiting.delete(cancel);
      this.events += 1;
      try {
        run();
      } catch (error) {
        this.fail(error);
      }
    };
    // What is due now keeps its order, and lets the sockets have their turn.
    const cancel = delayMs <= 0 ? soon(due) : later(due, delayMs);
    this.#waiting.add(cancel);
    return () => {
      this.#waiting.delete(cancel);
      cancel();
    };
  }

  /** Something failed outside of a simulated process: the run can not go on. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#reject(error);
  }

  async run(isOver: () => boolean, limitMs: number): Promise<LoopEnd> {
    const failed = new Promise<never>((_, reject) => {
      this.#reject = reject;
      if (this.#failure) reject(this.#failure.error);
    });
    const ended = new Promise<LoopEnd>((resolve) => {
      const look = (): void => {
        if (isOver()) resolve("over");
        else if (this.nowMs > limitMs) resolve("limit");
        else this.after(lookEveryMs, look);
      };
      look();
    });
    try {
      return await Promise.race([failed, ended]);
    } finally {
      for (const cancel of this.#waiting) cancel();
      this.#waiting.clear();
    }
  }
}

function soon(run: () => void): () => void {
  const immediate = setImmediate(run);
  return () => clearImmediate(immediate);
}

function later(run: () => void, delayMs: number): () => void {
  const timer = setTimeout(run, delayMs);
  return () => clearTimeout(timer);
}
