/** Runs vitest and counts its results from the JSON report, not from its words. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { musterDirectory, root } from "./paths.mjs";
import { runCommand } from "./run-command.mjs";
import { skipsVariable } from "./skips-reporter.mjs";
import { skipLine } from "./tally.mjs";

const resultsDirectory = join(musterDirectory, "test-results");

const skipsReporter = join(root, "scripts/lib/skips-reporter.mjs");

/**
 * @typedef {object} VitestReport - The part of vitest's JSON report that is read here.
 * @property {number} numPassedTests
 * @property {number} numFailedTests
 * @property {{ name: string, status: string, assertionResults: { status: string }[] }[]} testResults
 */

/** Forgets the reports of earlier runs. */
export function clearReports() {
  rmSync(resultsDirectory, { recursive: true, force: true });
  mkdirSync(resultsDirectory, { recursive: true });
}

/**
 * Runs vitest with its output on the terminal.
 *
 * @param {string} name - Of the report file.
 * @param {readonly string[]} args - Filters and flags.
 * @param {{ signal: AbortSignal, env: NodeJS.ProcessEnv, isPart?: boolean }} options - `isPart`: the arguments choose some of the
 *   tests, and those that they leave out are not worth a word.
 * @returns {Promise<import("./tally.mjs").Tally>}
 */
export async function runVitest(name, args, { signal, env, isPart = false }) {
  const report = join(resultsDirectory, `${name}.json`);
  const skips = join(resultsDirectory, `${name}.skipped.json`);
  const reporters = ["--reporter=default", "--reporter=json", `--reporter=${skipsReporter}`];
  const flags = ["run", "--passWithNoTests", ...reporters, `--outputFile.json=${report}`];
  const { code } = await runCommand(
    process.execPath,
    [join(root, "node_modules/vitest/vitest.mjs"), ...flags, ...args],
    {
      cwd: root,
      env: { ...env, [skipsVariable]: skips },
      signal,
      output: "inherit",
      timeoutMs: 30 * 60_000,
    },
  );
  return {
    ...tallyOf(readReport(report), code),
    skipped: skippedIn(readReport(skips) ?? [], isPart),
  };
}

/** @param {string} path @returns {any} Null when vitest wrote none. */
function readReport(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : null;
}

/**
 * One line for each skipped test. What a filter leaves out says no reason either.
 *
 * @param {readonly import("./skips-reporter.mjs").Skip[]} skips
 * @param {boolean} isPart
 * @returns {readonly string[]}
 */
export function skippedIn(skips, isPart) {
  return skips.filter(({ why }) => why !== null || !isPart).map(({ title, why }) => skipLine(title, why));
}

/**
 * Counts a report. A file that could not be loaded counts as one failure, and so do errors outside of tests, which vitest tells
 * by its exit code alone.
 *
 * @param {VitestReport | null} report - Null when vitest wrote none.
 * @param {number} code - Exit code of vitest.
 * @returns {Pick<import("./tally.mjs").Tally, "passed" | "failed">}
 */
export function tallyOf(report, code) {
  const files = report?.testResults ?? [];
  const unloadable = files.filter(
    (file) => file.status === "failed" && file.assertionResults.every(({ status }) => status !== "failed"),
  );
  const failed = (report?.numFailedTests ?? 0) + unloadable.length;
  return {
    passed: report?.numPassedTests ?? 0,
    failed: failed === 0 && code !== 0 ? 1 : failed,
  };
}

/** True when a folder holds a test file. @param {string} folder - From the root. @returns {boolean} */
export function hasTests(folder) {
  const path = join(root, folder);
  return existsSync(path) && readdirSync(path, { recursive: true }).some((file) => String(file).endsWith(".test.ts"));
}
