/**
 * The order of rows in an epoch: a permutation that is computed for one place at a time, so that nothing of the size of the data is kept and
 * nothing needs to be saved but the step.
 */
import { mixSeed } from "@muster/base";

const rounds = 6;

/** Place of a training prompt among all that a job uses. */
export interface Place {
  /** Prompts before it, from the first step on. */
  readonly position: number;
  /** Rows of the data, at least 1. */
  readonly rows: number;
  readonly seed: number;
}

/** The row at a place: each row once in an epoch, in an order of the epoch's own. Pure. */
export function shuffledRow({ position, rows, seed }: Place): number {
  const epoch = Math.floor(position / rows);
  const halfBits = Math.max(1, Math.ceil(Math.log2(Math.max(2, rows)) / 2));
  const half = 2 ** halfBits;
  let place = position % rows;
  // A Feistel network permutes a power of four; what falls outside goes round again until it is a row (cycle walking; Black and Rogaway, 2002).
  do {
    let [left, right] = [Math.floor(place / half), place % half];
    for (let round = 0; round < rounds; round++)
      [left, right] = [right, (left ^ mixSeed(seed, epoch, round, right)) & (half - 1)];
    place = left * half + right;
  } while (place >= rows);
  return place;
}
