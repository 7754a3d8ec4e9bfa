/** How the time for a mesh is shared out, in ms since its order. */
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
 * Whoever knows more gives up earlier, so that its cause is heard before somebody above it only knows that time is up. Pure.
 *
 * @param meshMs - `timing.mesh` of the job
 */
export const meshTimesOf = (meshMs: number): MeshTimes => ({
  formMs: Math.floor(0.8 * meshMs),
  answerMs: Math.floor(0.85 * meshMs),
  memberMs: Math.floor(0.9 * meshMs),
  controllerMs: meshMs,
});
