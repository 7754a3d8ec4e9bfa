/** Counts of what passed, failed and was skipped, and the last lines that say so. */

/**
 * @typedef {object} Tally
 * @property {number} passed
 * @property {number} failed
 * @property {readonly string[]} skipped - `<what>: <why>`, one line each.
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
 * What was skipped, in one line. @param {string} what @param {string | null} why @returns {string}
 */
export function skipLine(what, why) {
  return `${what}: ${why ?? "it does not say why"}`.replaceAll(/\s+/g, " ").trim();
}

/**
 * Prints a line `skipped: <what>: <why>` for each skipped test, which `.ci/run` gathers, and, last, `N passed, N failed`.
 *
 * @param {Tally} tally
 * @returns {number} The exit code: 1 when anything failed or nothing ran.
 */
export function conclude({ passed, failed, skipped }) {
  if (skipped.length > 0)
    console.log(`\n${skipped.map((line) => `skipped: ${line}\n`).join("")}${skipped.length} skipped`);
  if (passed + failed === 0) console.log("\nno test ran: that counts as a failure");
  console.log(`\n${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
}
