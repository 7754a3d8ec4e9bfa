/** What is remembered of evaluations. Plain JSON, part of the controller's state. */
import type { WorkItem } from "@muster/protocol";
import type { OutsideLosses } from "./outside-losses-state.ts";

/** One evaluation of the held-out prompts, in chunks. */
export interface Evaluation {
  readonly version: number;
  /** Leases that were made before it: what comes of them is of an earlier one, maybe of another line. Absent in journals of programs that did not note it. */
  readonly leasesBefore?: number;
  readonly queue: readonly Extract<WorkItem, { purpose: "eval" }>[];
  readonly settled: readonly number[];
  /** How often a holder died or let the lease of a chunk expire; at the limit of groups it is given up. */
  readonly attempts: Readonly<Record<string, number>>;
  /** By chunk: how often that may have had a cause outside; absent before the first time. */
  readonly outside?: Readonly<Record<string, OutsideLosses>>;
  readonly chunks: number;
  readonly prompts: number;
  readonly correct: number;
}

/** One evaluation, complete. */
export interface HeldOutResult {
  readonly version: number;
  readonly prompts: number;
  readonly correct: number;
}

/** The best evaluation so far, and whether the operator was told that the last one is far below it. */
export interface HeldOut {
  readonly best: HeldOutResult;
  readonly isTold: boolean;
  /** The last results, for checkpoints that become durable after them. Absent in journals of programs that did not keep them. */
  readonly results?: readonly HeldOutResult[];
  /** The checkpoint with the best result; absent before there is one. */
  readonly checkpoint?: HeldOutResult & { readonly step: number; readonly path: string };
}

/** Share of the prompts that were answered right, 0 to 1. Pure. */
export function shareOf({ correct, prompts }: HeldOutResult): number {
  return correct / Math.max(1, prompts);
}
