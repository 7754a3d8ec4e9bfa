/** A set-up step that cannot go on: what is wrong, and what to do about it. */
export class SetupError extends Error {
  /**
   * @param {string} message - What is wrong, in one sentence.
   * @param {{ fix: string, tail?: string }} details - How to mend it; the last lines of the command that failed.
   */
  constructor(message, { fix, tail = "" }) {
    super(message);
    this.fix = fix;
    this.tail = tail;
  }
}

const networkSigns =
  /ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|ERR_PNPM_META_FETCH_FAIL|fetch failed|network/i;

/**
 * What to do about a failed package manager command.
 *
 * @param {string} tail - The last lines of its output.
 * @param {string} otherwise - The advice when the network is not to blame.
 */
export function packageManagerFix(tail, otherwise) {
  if (!networkSigns.test(tail)) return otherwise;
  return "the package registry cannot be reached: check the network, HTTPS_PROXY and `npm config get registry`, then run it again";
}
