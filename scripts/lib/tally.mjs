/** Counts of what passed and failed, and the last line that says so. */

/**
 * @typedef {object} Tally
 * @property {number} passed
 * @property {number} failed
 * @property {readonly string[]} skipped - Titles.
 */

/** @param {readonly Tally[]} parts @returns {Tally} */
export function sumOf(parts) {
  return {
    passed: parts.reduce((sum, part) => sum + part.passed, 0),
    failed: parts.reduce((sum, part) => sum + part.failed, 0),
    skipped: parts.flatMap((part) => part.skipped),
  };
}

/** One thing that passed or failed. @param {boolean} passed @returns {Tally} */
export function one(passed) {
  return { passed: passed ? 1 : 0, failed: passed ? 0 : 1, skipped: [] };
}

/**
 * Prints the skipped tests and, last, `N passed, N failed`.
 *
 * @param {Tally} tally
 * @returns {number} The exit code: 1 when anything failed or nothing ran.
 */
export function conclude({ passed, failed, skipped }) {
  if (skipped.length > 0)
    console.log(`\n${skipped.length} skipped:${skipped.map((title) => `\n  - ${title}`).join("")}`);
  if (passed + failed === 0) console.log("\nno test ran: that counts as a failure");
  console.log(`\n${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
}
