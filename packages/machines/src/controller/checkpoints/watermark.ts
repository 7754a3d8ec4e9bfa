/** How far a checkpoint covers the groups stream. */
import { lowestOpenSeq } from "../groups/open-seq.ts";
import type { ControllerState, KeptReceipt } from "../state.ts";

/** Receipts of the steps that a checkpoint covers, and of those after it. */
export interface SplitHistory {
  readonly covered: readonly (readonly [string, readonly KeptReceipt[]])[];
  readonly history: ControllerState["history"];
}

/** Splits the history at a step. Pure. */
export function splitHistory(state: ControllerState, step: number): SplitHistory {
  const steps = Object.entries(state.history);
  return {
    covered: steps.filter(([key]) => Number(key) <= step),
    history: Object.fromEntries(steps.filter(([key]) => Number(key) > step)),
  };
}

/**
 * Messages of the groups stream below this sequence are not needed by a job that goes on after the checkpoint of `step`: they are of the steps that
 * it covers. It ends below whatever a later step points to, and never goes back. Pure.
 */
export function watermarkAfter(state: ControllerState, { covered, history }: SplitHistory): number {
  const last = covered.flatMap(([, receipts]) => receipts).reduce((max, { streamSeq }) => Math.max(max, streamSeq), 0);
  const beforeSeq = last > 0 ? Math.min(last + 1, lowestOpenSeq({ ...state, history })) : 0;
  return Math.max(state.purgedSeq, beforeSeq);
}
