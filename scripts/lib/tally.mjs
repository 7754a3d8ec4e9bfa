/** Counts of what passed, failed and was skipped, and the last lines that say so. */

/**
 * @typedef {object} Tally
 * @property {number} passed
 * @property {number} failed
 * @property {readonly string[]} failures - What failed: `<where> > <what>: <why>`, one line each. There may be fewer than `failed`.
 * @property {readonly string[]} skipped - `<what>: <why>`, one line each.
 */

/** @param {readonly Tally[]} parts @returns {Tally} */
export function sumOf(parts) {
  return {
    passed: parts.reduce((sum, part) => sum + part.passed, 0),
    failed: parts.reduce((sum, part) => sum + part.failed, 0),
    failures: parts.flatMap((part) => part.failures),
    skipped: parts.flatMap((part) => part.skipped),
  };
}

/** One thing that passed, or failed for a reason. @param {string} what @param {string | null} failure @returns {Tally} */
export function one(what, failure) {
  const failures = failure === null ? [] : [reasonLine(what, failure)];
  return { passed: 1 - failures.length, failed: failures.length, failures, skipped: [] };
}

const colours = new RegExp(`${String.fromCodePoint(27)}\\[[0-9;]*m`, "g");
const lineLength = 400;

/**
 * What was skipped or failed, and why, in one line. @param {string} what @param {string | null} why @returns {string}
 */
export function reasonLine(what, why) {
  const line = `${what}: ${why ?? "it does not say why"}`.replaceAll(colours, "").replaceAll(/\s+/g, " ").trim();
  return line.length > lineLength ? `${line.slice(0, lineLength)}…` : line;
}

/** The first line of a text that says anything. @param {string | undefined} text @returns {string | null} */
export function firstLineOf(text) {
  return text?.split("\n").find((line) => line.trim() !== "") ?? null;
}

/**
 * Prints a line `skipped: <what>: <why>` for each skipped test and one `failed: <where> > <what>: <why>` for each that failed, both of which
 * `.ci/run` gathers, and, last, `N passed, N failed`.
 *
 * @param {Tally} tally
 * @returns {number} The exit code: 1 when anything failed or nothing ran.
 */
export function conclude({ passed, failed, failures, skipped }) {
  if (skipped.length > 0)
    console.log(`\n${skipped.map((line) => `skipped: ${line}\n`).join("")}${skipped.length} skipped`);
  if (failures.length > 0) console.log(`\n${failures.map((line) => `failed: ${line}`).join("\n")}`);
  if (passed + failed === 0) console.log("\nno test ran: that counts as a failure");
  console.log(`\n${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0 ? 0 : 1;
}
