/**
 * Virtual time: a heap of events and the loop that runs them. Between two events every promise that can settle has settled, so a run
 * depends on its seed alone. No real timer is involved: `setImmediate` serves only to let Node empty its queue of microtasks.
 */
import type { Random } from "@muster/base";
import { mixSeed, randomOf } from "@muster/base";
import { EventHeap } from "./event-heap.ts";

/** Turns queued at once: a queue of immediates costs a tenth of one immediate after the other. */
const turnsAtOnce = 64;

/** How a run of the loop ended. */
export type LoopEnd = "over" | "idle" | "limit";

/** The one thread that everything in a simulation shares, and its time. */
export interface World {
  readonly seed: number;
  readonly nowMs: number;
  /** Events run so far. */
  readonly events: number;
  /** A stream of random numbers of its own for each purpose, so that one more draw here changes nothing there. */
  random(...key: readonly number[]): Random;
  /** Runs something later. @returns Cancels it. */
  after(delayMs: number, run: () => void): () => void;
  /**
   * Runs events until `isOver`, until none is left, or up to `limitMs`.
   *
   * @throws What an event throws: nothing in a simulation may fail outside of a simulated process.
   */
  run(isOver: () => boolean, limitMs: number): Promise<LoopEnd>;
}

/** Virtual time. */
export class VirtualWorld implements World {
  readonly seed: number;
  nowMs = 0;
  events = 0;
  readonly #heap = new EventHeap();

  constructor(seed: number) {
    this.seed = seed;
  }

  random(...key: readonly number[]): Random {
    return randomOf(mixSeed(this.seed, ...key));
  }

  after(delayMs: number, run: () => void): () => void {
    return this.#heap.push(this.nowMs + Math.max(0, delayMs), run);
  }

  run(isOver: () => boolean, limitMs: number): Promise<LoopEnd> {
    return new Promise((resolve, reject) => {
      let left = 0;
      let ended = false;
      const end = (how: LoopEnd): void => {
        ended = true;
        resolve(how);
      };
      const turn = (): void => {
        left -= 1;
        if (ended) return;
        try {
          const how = this.#next(isOver, limitMs);
          if (how !== null) end(how);
          else if (left === 0) queueTurns();
        } catch (error) {
          ended = true;
          reject(error as Error);
        }
      };
      const queueTurns = (): void => {
        left = turnsAtOnce;
        for (let i = 0; i < turnsAtOnce; i++) setImmediate(turn);
      };
      queueTurns();
    });
  }

  #next(isOver: () => boolean, limitMs: number): LoopEnd | null {
    if (isOver()) return "over";
    const event = this.#heap.pop();
    if (!event) return "idle";
    if (event.atMs > limitMs) return "limit";
    this.nowMs = event.atMs;
    this.events += 1;
    event.run();
    return null;
  }
}
