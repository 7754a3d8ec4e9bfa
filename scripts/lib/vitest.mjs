/** Runs vitest and counts its results from the JSON report, not from its words. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { musterDirectory, root } from "./paths.mjs";
import { runCommand } from "./run-command.mjs";
import { skipsVariable } from "./skips-reporter.mjs";
import { firstLineOf, reasonLine } from "./tally.mjs";

const resultsDirectory = join(musterDirectory, "test-results");

/** What the slowest project may take by hand, on a machine that has other work. */
const timeoutMs = 60 * 60_000;

const skipsReporter = join(root, "scripts/lib/skips-reporter.mjs");

/**
 * @typedef {object} VitestReport - The part of vitest's JSON report that is read here.
 * @property {number} numPassedTests
 * @property {number} numFailedTests
 * @property {FileReport[]} testResults
 */

/**
 * @typedef {object} FileReport
 * @property {string} name - Its path.
 * @property {string} status
 * @property {string} [message] - Why it could not be loaded.
 * @property {{ status: string, fullName: string, failureMessages?: string[] | null }[]} assertionResults
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
  const { code, timedOut } = await runCommand(
    process.execPath,
    [join(root, "node_modules/vitest/vitest.mjs"), ...flags, ...args],
    {
      cwd: root,
      env: { ...env, [skipsVariable]: skips },
      signal,
      output: "inherit",
      timeoutMs,
    },
  );
  const ended = timedOut ? `was ended after ${timeoutMs / 60_000} min: too slow` : `ended with code ${code}`;
  return {
    ...tallyOf(readReport(report), { code, ended }, name),
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
  return skips.filter(({ why }) => why !== null || !isPart).map(({ title, why }) => reasonLine(title, why));
}

/**
 * Counts a report, and names what failed. A file that could not be loaded counts as one failure, and so do errors outside of tests, which
 * vitest tells by its exit code alone.
 *
 * @param {VitestReport | null} report - Null when vitest wrote none.
 * @param {{ code: number, ended: string }} vitest - Its exit code, and how it ended in words.
 * @param {string} name - Of what was run, where no test is to blame.
 * @returns {Pick<import("./tally.mjs").Tally, "passed" | "failed" | "failures">}
 */
export function tallyOf(report, { code, ended }, name) {
  const failures = (report?.testResults ?? []).flatMap(failuresOf);
  if (failures.length === 0 && code !== 0)
    failures.push(reasonLine(name, `vitest ${ended}, and no test failed; its output says why`));
  return { passed: report?.numPassedTests ?? 0, failed: failures.length, failures };
}

/** One line for each failed test of a file, or for the file. @param {FileReport} file @returns {readonly string[]} */
function failuresOf({ name, status, message, assertionResults }) {
  const path = relative(root, name);
  const failed = assertionResults.filter((each) => each.status === "failed");
  if (failed.length === 0) return status === "failed" ? [reasonLine(path, firstLineOf(message))] : [];
  return failed.map(({ fullName, failureMessages }) =>
    reasonLine(`${path} > ${fullName}`, firstLineOf(failureMessages?.[0])),
  );
}

/** Test files of a folder, as paths from the root. @param {string} folder - From the root. @returns {readonly string[]} */
export function testFilesIn(folder) {
  const path = join(root, folder);
  const files = existsSync(path) ? readdirSync(path, { recursive: true }).map(String) : [];
  return files.filter((file) => file.endsWith(".test.ts")).map((file) => join(folder, file));
}
