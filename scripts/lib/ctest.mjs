/** Builds and runs the tests of the C++ core, and counts them from ctest's closing line and the lines of what was skipped. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { root } from "./paths.mjs";
import { runCommand } from "./run-command.mjs";
import { reasonLine } from "./tally.mjs";

const script = join(root, "native/test/run.sh");

/** True when there is a C++ core with tests. */
export const hasNativeTests = () => existsSync(script);

/**
 * Runs ctest with its output on the terminal.
 *
 * @param {{ signal: AbortSignal, env: NodeJS.ProcessEnv }} options
 * @returns {Promise<import("./tally.mjs").Tally>}
 */
export async function runNativeTests({ signal, env }) {
  let text = "";
  const output = (/** @type {Buffer} */ chunk) => {
    process.stdout.write(chunk);
    text += chunk.toString("utf8");
  };
  const { code } = await runCommand("sh", [script], { cwd: root, env, signal, output });
  return tallyOfCtest(text, code);
}

/**
 * Reads ctest's closing line, its list of what failed, and the lines `skipped <test>: <why>` of tests that did not run.
 *
 * @param {string} text - What it wrote.
 * @param {number} code - Its exit code; a failure without failed tests counts as one.
 * @returns {import("./tally.mjs").Tally}
 */
export function tallyOfCtest(text, code) {
  const match = /(\d+) tests? failed out of (\d+)/.exec(text);
  const failed = Number(match?.[1] ?? 0);
  const total = Number(match?.[2] ?? 0);
  const skipped = [...text.matchAll(/^skipped (\S+): (.+)$/gm)].map(([, what = "", why = ""]) => reasonLine(what, why));
  const passed = Math.max(0, total - failed - skipped.length);
  const failures = [...text.matchAll(/^\s+\d+ - (\S+) \((.+)\)\s*$/gm)].map(([, what = "", why = ""]) =>
    reasonLine(`native > ${what}`, why),
  );
  if (failed > 0 || code === 0) return { passed, failed, failures, skipped };
  return { passed, failed: 1, failures: [reasonLine("native", `its build or run ended with code ${code}`)], skipped };
}
