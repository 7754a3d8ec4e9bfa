/** What is remembered of lost holders. Plain JSON, part of the controller's state. */

/** Losses of the holders of one piece of work that may have a cause outside of it. */
export interface OutsideLosses {
  readonly count: number;
  /** How many of them were in a storm, and count for less. */
  readonly light: number;
}
