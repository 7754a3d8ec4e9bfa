/**
 * Number of this run of a file in continuous integration, one more each time that it runs: every second commit (`scripts/lib/turns.mjs`). It chooses what of
 * a matrix is run; `null` by hand.
 */
export const turn =
  process.env.MUSTER_CI_TURN === undefined ? null : Math.floor(Number(process.env.MUSTER_CI_TURN) / 2);
