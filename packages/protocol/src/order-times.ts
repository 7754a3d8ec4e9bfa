/**
 * How the time for an order is shared out: whoever knows more gives up earlier, so that its cause is heard before somebody above it only knows that time
 * is up.
 */

/** The shares of the time for a mesh, in ms since its order. */
export interface MeshTimes {
  /** When the data plane of a process gives up: it knows whom it missed. */
  readonly formMs: number;
  /** When rank 0 of a trainer of several processes knows that one of them does not answer. */
  readonly answerMs: number;
  /** When a trainer says that it could not join, whoever kept it. */
  readonly memberMs: number;
  /** When the controller counts who said nothing. */
  readonly controllerMs: number;
}

/**
 * Shares out the time for a mesh. Pure.
 *
 * @param meshMs - `timing.mesh` of the job
 */
export const meshTimesOf = (meshMs: number): MeshTimes => ({
  formMs: Math.floor(0.8 * meshMs),
  answerMs: Math.floor(0.85 * meshMs),
  memberMs: Math.floor(0.9 * meshMs),
  controllerMs: meshMs,
});

/** The shares of the time in which a replica of several processes gets a version, in ms since its order; the replica itself gives up at its end. */
export interface PullTimes {
  /** When a process gives up its part of the version. */
  readonly partMs: number;
  /** When rank 0 knows that one of them does not answer. */
  readonly answerMs: number;
}

/**
 * Shares out the time for a version. Pure.
 *
 * @param pullMs - `timing.pull` of the job
 */
export const pullTimesOf = (pullMs: number): PullTimes => ({
  partMs: Math.floor(0.9 * pullMs),
  answerMs: Math.floor(0.95 * pullMs),
});
