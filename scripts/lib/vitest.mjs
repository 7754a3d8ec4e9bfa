/** Runs vitest and counts its results from the JSON report, not from its words. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { musterDirectory, root } from "./paths.mjs";
import { runCommand } from "./run-command.mjs";

const resultsDirectory = join(musterDirectory, "test-results");

/**
 * @typedef {object} VitestReport - The part of vitest's JSON report that is read here.
 * @property {number} numPassedTests
 * @property {number} numFailedTests
 * @property {{ name: string, status: string, assertionResults: { fullName: string, status: string }[] }[]} testResults
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
 * @param {{ signal: AbortSignal, env: NodeJS.ProcessEnv }} options
 * @returns {Promise<import("./tally.mjs").Tally>}
 */
export async function runVitest(name, args, { signal, env }) {
  const report = join(resultsDirectory, `${name}.json`);
  const flags = ["run", "--passWithNoTests", "--reporter=default", "--reporter=json", `--outputFile.json=${report}`];
  const { code } = await runCommand(
    process.execPath,
    [join(root, "node_modules/vitest/vitest.mjs"), ...flags, ...args],
    {
      cwd: root,
      env,
      signal,
      output: "inherit",
      timeoutMs: 30 * 60_000,
    },
  );
  return tallyOf(existsSync(report) ? JSON.parse(readFileSync(report, "utf8")) : null, code);
}

/**
 * Counts a report. A file that could not be loaded counts as one failure, and so do errors outside of tests, which vitest tells
 * by its exit code alone.
 *
 * @param {VitestReport | null} report - Null when vitest wrote none.
 * @param {number} code - Exit code of vitest.
 * @returns {import("./tally.mjs").Tally}
 */
export function tallyOf(report, code) {
  const files = report?.testResults ?? [];
  const unloadable = files.filter(
    (file) => file.status === "failed" && file.assertionResults.every(({ status }) => status !== "failed"),
  );
  const failed = (report?.numFailedTests ?? 0) + unloadable.length;
  const skipped = files.flatMap((file) =>
    file.assertionResults.filter(({ status }) => !["passed", "failed"].includes(status)),
  );
  return {
    passed: report?.numPassedTests ?? 0,
    failed: failed === 0 && code !== 0 ? 1 : failed,
    skipped: skipped.map(({ fullName }) => fullName),
  };
}

/** True when a folder holds a test file. @param {string} folder - From the root. @returns {boolean} */
export function hasTests(folder) {
  const path = join(root, folder);
  return existsSync(path) && readdirSync(path, { recursive: true }).some((file) => String(file).endsWith(".test.ts"));
}
