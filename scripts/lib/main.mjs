/** The frame of every script: a failure is one clear message with its fix, and an exit code. */
import { Interrupted } from "./interrupt.mjs";
import { shortPath } from "./paths.mjs";
import { logPath } from "./setup/ensure-setup.mjs";
import { SetupError } from "./setup/setup-error.mjs";

/** Wrong use of a script: exit code 2. */
export class UsageError extends Error {}

/**
 * Runs a script and sets the exit code of the process.
 *
 * @param {() => Promise<number>} script - Resolves to the exit code.
 */
export async function main(script) {
  try {
    process.exitCode = await script();
  } catch (error) {
    process.exitCode = explain(error);
  }
}

/** Says what went wrong. @param {unknown} error @returns {number} The exit code. */
function explain(error) {
  if (error instanceof Interrupted) {
    console.error(`\n${error.message}`);
    return error.exitCode;
  }
  if (error instanceof UsageError) {
    console.error(error.message);
    return 2;
  }
  if (error instanceof SetupError) {
    if (error.tail) console.error(`\n${error.tail.replace(/^/gm, "  │ ")}`);
    console.error(
      `\nerror: ${error.message}\n  fix: ${error.fix}${error.tail ? `\n  log: ${shortPath(logPath)}` : ""}`,
    );
    return 1;
  }
  console.error(error);
  return 1;
}
