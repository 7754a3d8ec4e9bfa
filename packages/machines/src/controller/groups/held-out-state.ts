/** What is remembered of evaluations. Plain JSON, part of the controller's state. */

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
}
