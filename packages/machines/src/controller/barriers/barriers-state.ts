/** Barriers between the phases of scripts: what the controller keeps of them. */
import type { Barrier } from "../../phases/barrier.ts";
import type { AtMs } from "../at-ms.ts";

/** A barrier under its key. */
export interface KeptBarrier extends Omit<Barrier, "openedAtMs" | "dueAtMs"> {
  readonly openedAtMs: AtMs;
  readonly dueAtMs: AtMs;
  readonly epoch: number;
  readonly iteration: number;
  readonly phase: number;
  /** Ranks that came back with it; absent where none did. */
  readonly returned?: readonly number[];
  /** When its end was said last; absent before its end. */
  readonly saidAtMs?: AtMs;
  /** Somebody has asked for its end since then. */
  readonly isAsked?: true;
}

/** All of them, and who is out. */
export interface Barriers {
  /** Highest attempt at the phases; what comes from a lower one is refused. */
  readonly epoch: number;
  /** By `<iteration>.<phase>`, of this epoch only; the last ones that ended, and all that are open. */
  readonly table: Readonly<Record<string, KeptBarrier>>;
  /** Ranks that were ejected, and in which iteration: nobody waits for them until they come to phase 0 of a later one. */
  readonly out: Readonly<Record<string, number>>;
}

/** Barriers that may be open, and finished ones that are remembered for whoever asks again. */
export const openMax = 16;
export const keptMax = 64;

/** Nobody has arrived anywhere. */
export const noBarriers: Barriers = { epoch: 0, table: {}, out: {} };

/** True while nobody is there but ranks that came back: the others may be in an earlier iteration, so no time counts against them. Pure. */
export function isOnlyReturned({ returned = [], arrivals }: KeptBarrier): boolean {
  return returned.length === Object.keys(arrivals).length;
}

/** Key in the table. Pure. */
export function keyOf({ iteration, phase }: Pick<KeptBarrier, "iteration" | "phase">): string {
  return `${iteration}.${phase}`;
}
