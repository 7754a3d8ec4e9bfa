/**
 * What the ranks of a replica share: the rows of a pass, and two places in turn through which each gives the others what it computed. A rank
 * meets the others once for each exchange: whoever writes into a place again has met those who read it, at the exchange in between.
 */
import { errors } from "../../errors.ts";
import type { Batch } from "../decoder.ts";
import type { ModelConfig } from "../model-config.ts";
import { cutOf } from "./rank-section.ts";

/** Memory of an exchange, and its sizes. Goes to the ranks as it is. */
export interface SharedExchange {
  readonly memory: SharedArrayBuffer;
  readonly ranks: number;
  /** Rows of a pass at most. */
  readonly slots: number;
  /** Values of one row that a rank gives at most. */
  readonly widest: number;
  readonly hidden: number;
}

/** Words of the control block: ranks that arrived, exchanges that are over, and whether a rank is lost. */
const [arrived, over, broken, controlWords] = [0, 1, 2, 16];

/** How often a rank looks whether the others are there before it sleeps: longer than a small product takes. */
const looks = 2_000;

/** Makes the memory for ranks of a model. */
export function shareExchange(model: ModelConfig, ranks: number, slots: number): SharedExchange {
  const { hidden, ffn, vocab } = model;
  const widest = Math.max(hidden / ranks, ffn / ranks, cutOf(vocab, 0, ranks).length);
  const bytes = 4 * (controlWords + 8 * slots + 2 * ranks * slots * widest);
  return { memory: new SharedArrayBuffer(bytes), ranks, slots, widest, hidden };
}

/** The rows of a pass in shared memory. */
export function sharedBatchOf({ memory, slots }: SharedExchange): Batch {
  const at = (index: number): number => 4 * (controlWords + index * slots);
  return {
    uniforms: new Float64Array(memory, at(0), slots),
    tokens: new Int32Array(memory, at(2), slots),
    positions: new Int32Array(memory, at(3), slots),
    slots: new Int32Array(memory, at(4), slots),
    sharpness: new Float32Array(memory, at(5), slots),
    choices: new Int32Array(memory, at(6), slots),
    logprobs: new Float32Array(memory, at(7), slots),
  };
}

/** Ends all waits: a rank is lost. */
export function breakExchange({ memory }: SharedExchange): void {
  const control = new Int32Array(memory, 0, controlWords);
  Atomics.store(control, broken, 1);
  Atomics.notify(control, over);
}

/** One rank's side of an exchange. */
export interface Exchange {
  /** Place of the exchange that comes next; [ranks, slots · widest], or rows of the residual stream. Valid until the exchange after that. */
  place(): Float32Array;
  /** Where a rank's part begins in a place. */
  partAt(rank: number): number;
  /** Waits until all ranks have written into the place. @throws MUSTER_ERR_ENGINE_RANK_LOST */
  meet(): void;
}

/** Opens a rank's side. */
export function openExchange({ memory, ranks, slots, widest }: SharedExchange): Exchange {
  const control = new Int32Array(memory, 0, controlWords);
  const size = ranks * slots * widest;
  const places = [0, 1].map((i) => new Float32Array(memory, 4 * (controlWords + 8 * slots + i * size), size));
  const isOver = (round: number): boolean => {
    if (Atomics.load(control, broken) === 1) throw errors.EngineRankLost({ reason: "another rank is lost" });
    return Atomics.load(control, over) !== round;
  };
  let turn = 0;
  return {
    place: () => places[turn % 2]!,
    partAt: (rank) => rank * slots * widest,
    meet() {
      turn += 1;
      const round = Atomics.load(control, over);
      if (Atomics.add(control, arrived, 1) === ranks - 1) {
        Atomics.store(control, arrived, 0);
        Atomics.add(control, over, 1);
        Atomics.notify(control, over);
        return;
      }
      for (let look = 0; look < looks; look++) if (isOver(round)) return;
      while (!isOver(round)) Atomics.wait(control, over, round);
    },
  };
}
