/** Jobs that sample and train at different times: what such a job does now. */

/** Absent while the job does both. */
export interface JobPhase {
  readonly phase: "rollout" | "update";
  /** A step that is trained without the groups that are missing, if at least this share of them is there. */
  readonly partial?: { readonly step: number; readonly quorum: number };
  /** What was said last of its end: step, and groups that were there. */
  readonly told?: string;
}
